# encoder service: Python driving a C library through ctypes; the library leaks its window for some sizes
import ctypes, time, random, os

L = ctypes.CDLL(os.path.abspath("bin/libenc.so"))
L.enc_new.restype = ctypes.c_void_p
L.enc_feed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
L.enc_free.argtypes = [ctypes.c_void_p]
t0 = time.time()
results = {}
n = 0
while time.time() - t0 < 150:
    for _ in range(3):
        n += 1
        e = L.enc_new()
        data = os.urandom(random.randint(1000, 9000))
        results[n % 3000] = (L.enc_feed(e, data, len(data)), data[:4000])
        L.enc_free(e)
    time.sleep(0.012)
