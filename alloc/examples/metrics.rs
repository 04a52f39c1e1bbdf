//! Prints the metrics of a small program: `cargo run -p highwater-alloc --features meter --example metrics`.

#[global_allocator]
static ALLOCATOR: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

fn main() -> std::fmt::Result {
    let kept: Vec<Vec<u8>> = (0..5_000).map(|size| vec![1; size]).collect();
    std::thread::spawn(move || drop(kept)).join().ok();
    let mut text = String::new();
    highwater_alloc::openmetrics(&mut text)?;
    print!("{text}");
    Ok(())
}
