//! The sheet as PNG, with letters of its own: the same picture on a machine without any font.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, ID};
use resvg::usvg::{FontResolver, Options, Tree};

use super::{Drawn, words};

/// Pixels to one unit of the SVG: sharp on dense screens.
const SCALE: f32 = 2.0;
const FONT: &str = "DejaVu Sans";

/// A picture.
pub struct Png {
    pub bytes: Vec<u8>,
    /// Of each text the first letter that no font had: it is a box, and so may others be.
    pub lacking: BTreeSet<char>,
}

/// Renders an SVG of ours. What our own letters lack is looked for in `more`, font files.
///
/// # Errors
/// It is no SVG, or larger than memory.
pub fn png(svg: &str, more: &[Vec<u8>]) -> Drawn<Png> {
    let lacking = Mutex::new(BTreeSet::new());
    let options = options(more, &lacking).map_err(words)?;
    let tree = Tree::from_str(svg, &options).map_err(words)?;
    drop(options);
    let size = tree.size().to_int_size();
    let side = |n: u32| (n as f32 * SCALE) as u32;
    let pixmap = Pixmap::new(side(size.width()), side(size.height()));
    let mut pixmap = pixmap.ok_or("the picture is too large")?;
    resvg::render(
        &tree,
        Transform::from_scale(SCALE, SCALE),
        &mut pixmap.as_mut(),
    );
    Ok(Png {
        bytes: pixmap.encode_png().map_err(words)?,
        lacking: lacking.into_inner().unwrap_or_default(),
    })
}

/// Our letters and these; what neither has is noted.
fn options<'a>(
    more: &[Vec<u8>],
    lacking: &'a Mutex<BTreeSet<char>>,
) -> std::io::Result<Options<'a>> {
    let mut fonts = Database::new();
    for font in super::fonts::fonts()? {
        fonts.load_font_data(font);
    }
    fonts.set_sans_serif_family(FONT);
    for font in more {
        fonts.load_font_data(font.clone());
    }
    let usual = FontResolver::default_fallback_selector();
    let select_fallback = move |c: char, tried: &[ID], fonts: &mut Arc<Database>| {
        let found = usual(c, tried, fonts);
        if found.is_none()
            && let Ok(mut lacking) = lacking.lock()
        {
            lacking.insert(c);
        }
        found
    };
    Ok(Options {
        font_family: FONT.to_owned(),
        fontdb: Arc::new(fonts),
        font_resolver: FontResolver {
            select_fallback: Box::new(select_fallback),
            ..FontResolver::default()
        },
        ..Options::default()
    })
}
