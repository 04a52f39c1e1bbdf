//! The order service on jemalloc.
mod orders;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    orders::serve();
}
