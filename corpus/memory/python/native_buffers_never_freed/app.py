"""A picture service. It scales pictures in buffers from the C library's malloc and never gives one back."""
import ctypes
import random
import time

RANDOM = random.Random(7)

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]


class Picture:
    def __init__(self, number):
        self.number = number
        self.title = f"picture {number}"
        self.tags = [f"tag-{RANDOM.randrange(5000)}" for _ in range(6)]
        self.pixels = RANDOM.getrandbits(8 * 512).to_bytes(512, "little")


class Scaler:
    def __init__(self):
        self.scaled = 0

    def allocate_canvas(self, size):
        return libc.malloc(size)

    def scale_picture(self, picture, factor):
        size = len(picture.pixels) * factor
        canvas = self.allocate_canvas(size)
        ctypes.memmove(canvas, picture.pixels * factor, size)
        self.scaled += 1
        return ctypes.string_at(canvas, 64)


def handle_thumbnail(scaler, pictures):
    picture = RANDOM.choice(pictures)
    return {"title": picture.title, "head": scaler.scale_picture(picture, RANDOM.randrange(8, 24))}


def main():
    pictures = [Picture(number) for number in range(25_000)]
    scaler = Scaler()
    print("ready", flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        handle_thumbnail(scaler, pictures)
        time.sleep(1 / 150)


main()
