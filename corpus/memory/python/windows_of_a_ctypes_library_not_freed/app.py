"""An encoder service. It drives a C library by ctypes, and the library does not free its window for some sizes."""
import ctypes
import os
import random
import time

encoder = ctypes.CDLL("./encoder.so")
encoder.encoder_new.restype = ctypes.c_void_p
encoder.encoder_feed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
encoder.encoder_free.argtypes = [ctypes.c_void_p]


def encode_clip(clip):
    handle = encoder.encoder_new()
    total = encoder.encoder_feed(handle, clip, len(clip))
    encoder.encoder_free(handle)
    return total, clip[:4000]


def main():
    random.seed(7)
    recent_results = {}
    number = 0
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for _ in range(3):
            number += 1
            recent_results[number % 3000] = encode_clip(os.urandom(random.randint(1000, 9000)))
            if number == 3000:
                print("ready", flush=True)
        time.sleep(0.012)


main()
