//! Unwind tables of one mapped file, and what the unwinder leaves out of them: frames whose end is kept in memory, as
//! those of hand-written code that aligns its stack (OpenSSL's hashes and ciphers).

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use framehop::{ExplicitModuleSectionInfo, Module};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Evaluation, EvaluationResult,
    Expression, LittleEndian, Location, RegisterRule, UnwindContext, UnwindSection, Value, X86_64,
};
use object::{Object, ObjectSection, ObjectSegment, ReadCache, SegmentFlags};
use observe::fact::open_file;

use crate::registers::Registers;
use crate::tables::{self, Bytes, FileId};

/// Unwind tables of one file larger than this are left out: memory is bounded.
const TABLE_BYTES_MAX: u64 = 16 << 20;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

pub struct UnwindTables {
    range: Range<u64>,
    bias: u64,
    frames: Bytes,
    header: Bytes,
    bases: BaseAddresses,
}

/// The tables of a mapping of code, for the unwinder and as they are.
pub fn read(
    path: &str,
    range: Range<u64>,
    offset: u64,
) -> Option<(Module<Bytes>, Option<UnwindTables>)> {
    let cache = ReadCache::new(open_file(Path::new(path)).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let bias = bias(&file, &range, offset)?;
    let place = |name: &str| {
        let section = file.section_by_name(name)?;
        let end = section.address().checked_add(section.size())?;
        Some(section.address()..end)
    };
    let id = FileId::of(path)?;
    let data = |name: &'static str| -> Option<Bytes> {
        tables::shared((id, name), || {
            let section = file.section_by_name(name)?;
            if section.size() > TABLE_BYTES_MAX {
                return None;
            }
            Some(section.data().ok()?.into())
        })
    };
    let (frames, header) = (data(".eh_frame"), data(".eh_frame_hdr"));
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: place(".text"),
        got_svma: place(".got"),
        eh_frame_svma: place(".eh_frame"),
        eh_frame: frames.clone(),
        eh_frame_hdr_svma: place(".eh_frame_hdr"),
        eh_frame_hdr: header.clone(),
        ..Default::default()
    };
    let tables = frames.zip(header).map(|(frames, header)| {
        let start = |name: &str| place(name).map_or(0, |place| place.start);
        UnwindTables {
            range: range.clone(),
            bias,
            frames,
            header,
            bases: BaseAddresses::default()
                .set_eh_frame(start(".eh_frame"))
                .set_eh_frame_hdr(start(".eh_frame_hdr"))
                .set_text(start(".text"))
                .set_got(start(".got")),
        }
    });
    let module = Module::new(path.to_string(), range, bias, sections);
    Some((module, tables))
}

/// What is added to an address of the file where it is mapped.
fn bias<'a>(
    file: &object::File<'a, &'a ReadCache<File>>,
    range: &Range<u64>,
    offset: u64,
) -> Option<u64> {
    let executable = |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags & 1 != 0);
    let segment = file.segments().find(|segment| {
        let (start, size) = segment.file_range();
        executable(segment.flags())
            && offset <= start.saturating_add(size)
            && offset.saturating_add(range.end) > start
    })?;
    let address = segment.address().wrapping_add(offset);
    let address = address.wrapping_sub(segment.file_range().0);
    Some(range.start.wrapping_sub(address))
}

impl UnwindTables {
    pub fn contains(&self, pc: u64) -> bool {
        self.range.contains(&pc)
    }

    /// The registers of the caller of code at `at.pc`, if they can be read. `None`: the frame's end is not kept in
    /// memory. `read`: a word of the stack.
    pub fn caller(
        &self,
        at: Registers,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Option<Option<Registers>> {
        let section = EhFrame::new(&self.frames, LittleEndian);
        let header = EhFrameHdr::new(&self.header, LittleEndian);
        let header = header.parse(&self.bases, 8).ok()?;
        let mut context = UnwindContext::new();
        let row = header
            .table()?
            .unwind_info_for_address(
                &section,
                &self.bases,
                &mut context,
                at.pc.wrapping_sub(self.bias),
                EhFrame::cie_from_offset,
            )
            .ok()?;
        let CfaRule::Expression(expression) = row.cfa() else {
            return None;
        };
        let expression = expression.get(&section).ok()?;
        Some(caller(expression, row.register(X86_64::RBP), at, read))
    }
}

fn caller(
    expression: Expression<Slice<'_>>,
    saved_fp: Option<RegisterRule<usize>>,
    at: Registers,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Option<Registers> {
    let end = evaluated(expression, at, read)?;
    let fp = match saved_fp {
        Some(RegisterRule::Offset(offset)) => read(end.checked_add_signed(offset)?)?,
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => at.fp,
        Some(_) => return None,
    };
    (end > at.sp).then_some(Registers {
        pc: read(end.checked_sub(8)?)?,
        sp: end,
        fp,
        lr: 0,
    })
}

fn evaluated(
    expression: Expression<Slice<'_>>,
    at: Registers,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Option<u64> {
    /// A frame's end takes three or four operations.
    const OPERATIONS_MAX: u32 = 64;
    let encoding = gimli::Encoding {
        format: gimli::Format::Dwarf32,
        version: 4,
        address_size: 8,
    };
    let mut evaluation = Evaluation::new(expression.0, encoding);
    evaluation.set_max_iterations(OPERATIONS_MAX);
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = match register {
                    X86_64::RSP => at.sp,
                    X86_64::RBP => at.fp,
                    _ => return None,
                };
                evaluation
                    .resume_with_register(Value::Generic(value))
                    .ok()?
            }
            EvaluationResult::RequiresMemory {
                address, size: 8, ..
            } => {
                let value = Value::Generic(read(address)?);
                evaluation.resume_with_memory(value).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.result().last()?.location {
        Location::Address { address } => Some(address),
        _ => None,
    }
}
