//! Prints nanoseconds of CPU time of a malloc and its free: freed at once, and at random.

fn main() {
    let times = pairs::time_pairs();
    println!("{} {}", times.at_once_ns, times.random_ns);
}
