//! The order service on mimalloc.
mod orders;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    orders::serve();
}
