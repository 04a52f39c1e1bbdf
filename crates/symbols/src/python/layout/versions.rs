//! The offsets of each version, as far as they differ from those of the one before.

use super::{CodeLayout, FrameLayout, FunctionLayout, Layout};

const CODE_3_8: CodeLayout = CodeLayout {
    names: 64,
    file: 104,
    name: 112,
    qualified_name: None,
    first_line: 40,
    lines: 120,
    stack: 32,
    locals: 28,
    local_names: [72, 88, 80],
    byte_code: 48,
};
const CODE_3_11: CodeLayout = CodeLayout {
    names: 32,
    file: 112,
    name: 120,
    qualified_name: Some(128),
    first_line: 72,
    lines: 136,
    stack: 68,
    locals: 76,
    local_names: [96, 0, 0],
    byte_code: 184,
};
const CODE_3_12: CodeLayout = CodeLayout {
    first_line: 68,
    stack: 64,
    locals: 72,
    byte_code: 192,
    ..CODE_3_11
};
const CODE_3_13: CodeLayout = CodeLayout {
    byte_code: 200,
    ..CODE_3_12
};
const CODE_3_14: CodeLayout = CodeLayout {
    byte_code: 208,
    ..CODE_3_12
};

const FUNCTION_3_8: FunctionLayout = FunctionLayout {
    code: 16,
    globals: 24,
    defaults: 32,
    keyword_defaults: 40,
    closure: 48,
    qualified_name: 104,
    module: 88,
};
const FUNCTION_3_10: FunctionLayout = FunctionLayout {
    code: 48,
    globals: 16,
    defaults: 56,
    keyword_defaults: 64,
    closure: 72,
    qualified_name: 40,
    module: 104,
};

const FRAME_3_8: FrameLayout = FrameLayout {
    code: 32,
    previous: 24,
    locals: 360,
    owner: None,
    instruction: 104,
};
const FRAME_3_11: FrameLayout = FrameLayout {
    code: 32,
    previous: 48,
    locals: 72,
    owner: Some(69),
    instruction: 56,
};
const FRAME_3_12: FrameLayout = FrameLayout {
    code: 0,
    previous: 8,
    locals: 72,
    owner: Some(70),
    instruction: 56,
};

pub(super) const LAYOUT_3_8: Layout = Layout {
    minor: 8,
    interpreters: 32,
    next_interpreter: 0,
    threads: 8,
    gc: 344,
    gc_permanent: 104,
    gc_stats: 128,
    gc_collecting: 200,
    interpreter_bytes: 2_720,
    next_thread: 8,
    thread_frame: 24,
    current_frame: None,
    thread_bytes: 264,
    thread_dict: 152,
    thread_id: 176,
    frame: FRAME_3_8,
    code: CODE_3_8,
    function: FUNCTION_3_8,
    generator_frame: 16,
    cached_keys: 872,
    qualified_name: 864,
    tuple_items: 24,
    str_bytes: [48, 72, 80],
    pool_bytes: 4_096,
};
pub(super) const LAYOUT_3_9: Layout = Layout {
    minor: 9,
    gc: 616,
    interpreter_bytes: 5_656,
    cached_keys: 864,
    qualified_name: 856,
    ..LAYOUT_3_8
};
pub(super) const LAYOUT_3_10: Layout = Layout {
    minor: 10,
    interpreter_bytes: 113_528,
    thread_bytes: 280,
    frame: FrameLayout {
        locals: 352,
        instruction: 96,
        ..FRAME_3_8
    },
    function: FUNCTION_3_10,
    cached_keys: 872,
    qualified_name: 864,
    pool_bytes: 16_384,
    ..LAYOUT_3_9
};
pub(super) const LAYOUT_3_11: Layout = Layout {
    minor: 11,
    interpreters: 40,
    threads: 16,
    gc: 648,
    interpreter_bytes: 107_752,
    thread_frame: 56,
    current_frame: Some(8),
    thread_bytes: 360,
    thread_dict: 128,
    thread_id: 152,
    frame: FRAME_3_11,
    code: CODE_3_11,
    generator_frame: 80,
    ..LAYOUT_3_10
};
pub(super) const LAYOUT_3_12: Layout = Layout {
    minor: 12,
    threads: 72,
    gc: 112,
    interpreter_bytes: 383_552,
    current_frame: Some(0),
    thread_bytes: 288,
    thread_dict: 112,
    thread_id: 136,
    frame: FRAME_3_12,
    code: CODE_3_12,
    generator_frame: 72,
    cached_keys: 880,
    qualified_name: 872,
    str_bytes: [40, 56, 64],
    ..LAYOUT_3_11
};
pub(super) const LAYOUT_3_13: Layout = Layout {
    minor: 13,
    interpreters: 632,
    next_interpreter: 7_264,
    threads: 7_344,
    gc: 7_400,
    interpreter_bytes: 194_968,
    thread_frame: 72,
    current_frame: None,
    thread_bytes: 304,
    thread_dict: 128,
    thread_id: 152,
    code: CODE_3_13,
    ..LAYOUT_3_12
};
/// The collector's lists are in the same place with the incremental collector (3.14.0) and without (3.14.10).
pub(super) const LAYOUT_3_14: Layout = Layout {
    minor: 14,
    interpreters: 808,
    next_interpreter: 7_272,
    gc: 7_408,
    gc_permanent: 96,
    gc_stats: 120,
    gc_collecting: 192,
    interpreter_bytes: 225_864,
    thread_bytes: 832,
    frame: FrameLayout {
        locals: 80,
        owner: Some(74),
        ..FRAME_3_12
    },
    code: CODE_3_14,
    tuple_items: 32,
    ..LAYOUT_3_13
};
