//! A thread for each connection; a table of sums under a parking_lot Mutex. --fault convoy: each request takes the
//! mutex 30 times, each time over a sleep of 150 us, as for a device to settle; with --burst 1 all requests come at
//! once. --fault sleep: every 2.43 s a thread sleeps 170 ms with the mutex. --fault convoy_outside is healthy: the
//! sleeps of convoy without the mutex. Healthy: the thread sleeps first.
use parking_lot::Mutex;
use service::*;
use std::time::Duration;

static SUMS: Mutex<[u64; 64]> = Mutex::new([0; 64]);

#[inline(never)]
fn read_sensor(id: u64, cell: u64) -> u64 {
    std::thread::sleep(Duration::from_micros(150));
    std::hint::black_box(id ^ cell)
}

#[inline(never)]
fn sum_under_lock(id: u64) {
    for cell in 0..30 {
        let mut sums = SUMS.lock();
        sums[cell as usize] ^= read_sensor(id, cell);
        drop(sums);
        burn_us(5);
    }
}

#[inline(never)]
fn sum_outside_lock(id: u64) {
    for cell in 0..30 {
        let value = read_sensor(id, cell);
        SUMS.lock()[cell as usize] ^= value;
        burn_us(5);
    }
}

#[inline(never)]
fn await_calibration(ms: u64) -> u64 {
    sleep_ms(ms);
    std::hint::black_box(ms + 1)
}

fn calibrate_sensors(settings: &Settings) {
    loop {
        sleep_ms(2430);
        if settings.is("sleep") {
            let mut sums = SUMS.lock();
            sums[0] += await_calibration(170);
        } else {
            let value = await_calibration(170);
            SUMS.lock()[0] += value;
        }
    }
}

fn main() {
    let settings = read_settings(140, 200, 8);
    let listener = settings.listen();
    spawn("calibrator", || calibrate_sensors(settings));
    settings.start_load("keep");
    serve_by_threads(&listener, "connection", |id| {
        burn_us(settings.work_us);
        match settings.fault.as_str() {
            "convoy" => sum_under_lock(id),
            "convoy_outside" => sum_outside_lock(id),
            _ => SUMS.lock()[(id % 64) as usize] ^= id,
        }
    });
}
