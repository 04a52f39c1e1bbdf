//! The sheet as PNG, with letters of its own: the same picture on a machine without any font.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::{Drawn, words};

/// Pixels to one unit of the SVG: sharp on dense screens.
const SCALE: f32 = 2.0;
const FONT: &str = "DejaVu Sans";

/// Renders an SVG of ours.
///
/// # Errors
/// It is no SVG, or larger than memory.
pub fn png(svg: &str) -> Drawn<Vec<u8>> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family(FONT);
    let options = Options {
        font_family: FONT.to_owned(),
        fontdb: Arc::new(fonts),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(words)?;
    let size = tree.size().to_int_size();
    let side = |n: u32| (n as f32 * SCALE) as u32;
    let pixmap = Pixmap::new(side(size.width()), side(size.height()));
    let mut pixmap = pixmap.ok_or("the picture is too large")?;
    resvg::render(
        &tree,
        Transform::from_scale(SCALE, SCALE),
        &mut pixmap.as_mut(),
    );
    pixmap.encode_png().map_err(words)
}
