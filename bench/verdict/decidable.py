#!/usr/bin/env python3
"""Series whose truth can be decided by somebody who knows the noise.

    decidable.py --seed S --each N --out DIR [--only FAMILY,...]     (needs numpy)

writes series.csv and meta.csv for `highwater verdict`, truth.csv for decidable_score.py, and info.csv for people.
Written from the meanings of the labels alone, before a line of the judge or of the other sets was read. Truth is drawn,
never fitted: noise is scaled by its known covariance (OU + white) until generalized least squares tell the noiseless
curve from every rival shape by 4.3 standard errors. Long because a set is written whole before it is looked at, and
a reader goes through it as a list.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import argparse, csv, zlib
import numpy as np

PARTS = (0.125, 0.25, 0.5, 0.75)
DAY = 86400.0
BOUNDED = ("flat", "plateauing", "sawtooth", "stepped")
ORDER = ("flat", "plateauing", "growing", "sawtooth", "stepped", "insufficient")
FAM = {}


class Retry(Exception):
    pass


def family(f):
    FAM[f.__name__] = f
    return f


def logu(r, a, b):
    return float(np.exp(r.uniform(np.log(a), np.log(b))))


def pick(r, *xs):
    return xs[int(r.integers(len(xs)))]


# ---------- windows, times
def window(r, wmin=1800, wmax=21 * DAY, nmin=60, nmax=2000):
    W = logu(r, wmin, wmax)
    n = int(min(logu(r, nmin, nmax), max(nmin, W / 2)))
    return W, n


def level(r):
    return logu(r, 10 * 1024, 60 * 1024**2)  # KiB


def times(r, W, n, mode=None):
    mode = mode or r.choice(["even", "even", "jitter", "jitter", "poisson", "tworate"])
    if mode == "even":
        t = np.linspace(0, W, n)
    elif mode == "jitter":
        t = np.linspace(0, W, n) + r.uniform(-0.4, 0.4, n) * W / n
    elif mode == "poisson":
        t = np.cumsum(r.exponential(1, n) + 0.05)
    elif mode == "tworate":  # scrape interval changed once, by 2 to 4
        k = r.uniform(2, 4)
        c = r.uniform(0.3, 0.7)
        g = np.where(np.arange(n) < c * n, 1.0, k)
        if r.random() < 0.5:
            g = g[::-1]
        t = np.cumsum(g)
    elif mode == "gappy":
        t = np.linspace(0, W, n) + r.uniform(-0.3, 0.3, n) * W / n
        keep = np.ones(n, bool)
        for _ in range(int(r.integers(1, 5))):
            a = r.uniform(0.05, 0.9)
            keep[(t > a * W) & (t < (a + logu(r, 0.03, 0.15)) * W)] = False
        keep &= r.random(n) > r.uniform(0, 0.2)
        keep[0] = keep[-1] = True
        t = t[keep]
    t = (t - t[0]) / (t[-1] - t[0]) * W
    return t


# ---------- noise
def spec(r, kind=None):
    """share of OU variance, phi per mean step, tail of the white part"""
    kind = kind or r.choice(["white", "ar", "mix"], p=[0.35, 0.35, 0.3])
    if kind == "white":
        return dict(w=0.0, phi=0.0, tail="gauss")
    if kind == "heavy":
        return dict(
            w=float(pick(r, 0.0, 0.0, 0.3)), phi=r.uniform(0.3, 0.8), tail=pick(r, "t3", "t3", "laplace", "skew")
        )
    if kind == "ar":
        return dict(w=1.0, phi=r.uniform(0.4, 0.92), tail="gauss")
    if kind == "ar99":
        return dict(w=float(pick(r, 1.0, 0.9)), phi=r.uniform(0.95, 0.99), tail="gauss")
    return dict(w=r.uniform(0.3, 0.8), phi=r.uniform(0.6, 0.95), tail="gauss")


def corr_time(t, s):
    return (t[-1] - t[0]) / (len(t) - 1) / -np.log(s["phi"]) if s["w"] > 0 else 1.0


def unit_noise(r, t, s):
    n = len(t)
    tail = s["tail"]
    if tail == "t3":
        e = r.standard_t(3, n) / np.sqrt(3)
    elif tail == "laplace":
        e = r.laplace(0, 1 / np.sqrt(2), n)
    elif tail == "skew":
        e = r.lognormal(0, 0.8, n)
        v = 0.64
        e = (e - np.exp(v / 2)) / np.sqrt((np.exp(v) - 1) * np.exp(v))
    else:
        e = r.standard_normal(n)
    if s["w"] <= 0:
        return e
    tau = corr_time(t, s)
    x = np.empty(n)
    x[0] = r.standard_normal()
    a = np.exp(-np.diff(t) / tau)
    b = np.sqrt(1 - a * a)
    z = r.standard_normal(n)
    for i in range(1, n):
        x[i] = a[i - 1] * x[i - 1] + b[i - 1] * z[i]
    return np.sqrt(s["w"]) * x + np.sqrt(1 - s["w"]) * e


def cov(t, s):
    n = len(t)
    C = np.eye(n) * (1 - s["w"] if s["w"] > 0 else 1.0)
    if s["w"] > 0:
        C += s["w"] * np.exp(-np.abs(t[:, None] - t[None, :]) / corr_time(t, s))
    C[np.diag_indices(n)] += 1e-6
    return C


# ---------- decidability by GLS
class Gls:
    def __init__(self, t, s, m, alts, base):
        """m: noiseless curve; alts: list of lists of columns; base: columns every model has"""
        W = t[-1]
        self.base = [np.ones_like(t)] + base
        cols = [m] + self.base + [t / W] + [c for a in alts for c in a]
        A = np.array(cols).T
        A = A / np.maximum(np.abs(A).max(0), 1e-300)
        self.scale = np.maximum(np.abs(np.array(cols)).max(1), 1e-300)
        self.G = A.T @ np.linalg.solve(cov(t, s), A)
        self.nb = len(self.base)
        self.alts = alts

    def dist(self, target, idx):
        S = self.G[np.ix_(idx, idx)]
        g = self.G[idx, target]
        d2 = self.G[target, target] - g @ np.linalg.pinv(S, rcond=1e-11) @ g
        return np.sqrt(max(d2, 0.0)) * self.scale[target]

    def nearest(self):
        """least distance (unit noise sd) of m from the rival shapes"""
        b = list(range(1, 1 + self.nb))
        k = 2 + self.nb
        ds = [self.dist(0, b)]
        for a in self.alts:
            ds.append(self.dist(0, b + list(range(k, k + len(a)))))
            k += len(a)
        return min(ds)

    def se_line(self, own=False):
        """se of (slope x window) at unit noise sd, beside base (and the curve m itself)"""
        idx = list(range(1, 1 + self.nb)) + ([0] if own else [])
        return 1 / max(self.dist(1 + self.nb, idx), 1e-12)


def fillc(t, tau):
    return 1 - np.exp(-np.maximum(t, 0) / tau)


def alts_for_growing(t):
    W = t[-1]
    A = [[fillc(t, f * W)] for f in (0.01, 0.03, 0.06, 0.1, 0.14, 0.2, 0.25)]
    A += [[(t > f * W).astype(float)] for f in np.linspace(0.05, 0.95, 19)]
    return A


def alts_for_plateau(t):
    W = t[-1]
    A = [[t / W], [np.sqrt(t / W)], [(t / W) ** 0.3], [(t / W) ** 0.7], [fillc(t, 0.5 * W)], [fillc(t, W)]]
    A += [[np.log1p(t / (W * f))] for f in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)]
    return A


def harmonics(t, period, k=2):
    w = 2 * np.pi * t / period
    return [f(j * w) for j in range(1, k + 1) for f in (np.cos, np.sin)]


# ---------- truth of the parts, smooth trends
def setstr(S):
    return "|".join(x for x in ORDER if x in S)


def smooth_part(m, W, p, asym=False, leak=None, cycle=None):
    """m callable, leak callable (the unbounded component of a leak+fill)"""
    T = p * W
    end = float(m(T))
    start = float(m(0.0))
    lev = max(end, 1e-9)
    rise = (end - start) / lev
    term = (end - float(m(0.8 * T))) / (0.2 * T) * T / lev
    S = set()
    if rise < 0.033:
        S.add("flat")
    if term >= 0.02:
        S.add("growing")
        if term < 0.03:
            S |= {"flat", "plateauing"} if asym or rise > 0.033 else {"flat"}
    if asym and rise >= 0.01:
        S.add("plateauing")
    if leak is not None:
        lr = (float(leak(T)) - float(leak(0.0))) / lev
        if lr < 0.033:
            S.add("plateauing")
    if not S:
        S |= {"flat", "growing", "plateauing"}
    if cycle is not None and cycle[1] >= 0.015:
        period, amp = cycle
        if T < 1.3 * period:
            S |= set(BOUNDED) - {"stepped"} | {"growing"}
        elif "growing" not in S or "flat" in S:
            S.add("sawtooth")
    return S


def parts_of(W, f):
    return {p: set(f(p)) | {"insufficient"} for p in PARTS}


# ---------- finishing
def kib(y):
    return np.maximum(np.round(y / 4) * 4, 4)


def smooth(
    r,
    W,
    n,
    m,
    accept,
    grows,
    asym=False,
    leak=None,
    cycle=None,
    cyc=None,
    s=None,
    mode=None,
    z=(4.6, 40),
    cap=0.12,
    want="growing",
    post=None,
    slope=True,
    quant=None,
):
    t = times(r, W, n, mode)
    s = s or spec(r)
    mt = m(t)
    lev = float(mt[-1])
    base = harmonics(t, cycle[0]) if cycle else []
    if cycle and cycle[0] > 5 * DAY:
        base = base + harmonics(t, DAY, 1)
    alts = {"growing": alts_for_growing, "plateauing": alts_for_plateau}.get(want, lambda t: [])(t)
    g = Gls(t, s, mt, alts, base)
    zz = logu(r, *z)
    if want == "flat":  # growth of 3 % excluded
        sd = 0.03 * lev / (zz * g.se_line())
        d = zz
    else:
        d1 = g.nearest()
        sd = d1 / zz
        if want == "plateauing":
            sd = min(sd, 0.03 * lev / (3.6 * g.se_line(own=True)))
        sd = min(sd, cap * lev)
        d = d1 / sd
    sd = min(sd, cap * lev)
    if quant is not None and quant > 0:
        sd = max(sd, quant * 0.25) if want != "growing" else sd
    y = mt + sd * unit_noise(r, t, s)
    if cyc is not None:
        y = y + cyc(t)
    y = np.maximum(y, 0.3 * mt)
    # full-window truth must be clear of the borders
    rise = (mt[-1] - mt[0]) / lev
    term = (lev - float(m(0.8 * W))) / 0.2 / lev
    if want == "growing" and not (term >= 0.035 and rise >= 0.035):
        raise Retry
    if want == "flat" and abs(rise) > 0.0075:
        raise Retry
    if want == "plateauing" and not (rise > 0.05 and term < 0.01):
        raise Retry
    P = parts_of(W, lambda p: smooth_part(m, W, p, asym, leak, cycle))
    if want == "growing":  # what was seen so far rose by under 3 %: flat is right as well
        for p in PARTS:
            k = t <= p * W
            if "growing" in P[p] and "flat" not in P[p] and k.sum() >= 8:
                X = np.array([np.ones(k.sum()), t[k] / W] + [b[k] for b in base]).T
                if X.shape[1] + 3 > k.sum():
                    continue
                Ci = np.linalg.solve(cov(t[k], dict(s)), np.c_[X, y[k]])
                be = np.linalg.pinv(X.T @ Ci[:, :-1]) @ (X.T @ Ci[:, -1])
                if be[1] * p / m(p * W) < 0.03:
                    P[p].add("flat")
    sl = (lev - float(m(0.8 * W))) / (0.2 * W) * 3600 * 1024 if grows and slope else None
    out = dict(
        t=t,
        y=y,
        accept=accept,
        grows=grows,
        slope=sl,
        parts=P,
        note=f"sd={sd / lev:.4f} w={s['w']:.2f} phi={s['phi']:.3f} tail={s['tail']} z={d:.1f} rise={rise:.3f}",
    )
    if quant:
        out["y"] = np.round(y / quant) * quant
        out["noround"] = True
    if post:
        post(r, out)
    return out


def linear(L, W, rise):
    return lambda t: L * (1 + rise * np.asarray(t) / W)


def spikes(r, o):
    n = len(o["t"])
    k = max(2, int(n * r.uniform(0.005, 0.04)))
    mid = np.median(o["y"])
    for i in r.integers(1, n - 1, k):
        w = int(r.integers(1, 3))
        o["y"][i : i + w] += mid * logu(r, 0.1, 1.5)


def zeros(r, o):
    n = len(o["t"])
    o["y"][r.random(n) < r.uniform(0.01, 0.06)] = 0
    if r.random() < 0.4:
        a = int(r.integers(2, n - 8))
        o["y"][a : a + int(r.integers(2, 5))] = 0
    o["zeros"] = True


def mess(r, o):
    t, y = o["t"].copy(), o["y"].copy()
    n = len(t)
    dt = t[-1] / n
    did = []
    if r.random() < 0.6:
        d = r.integers(0, n, max(1, n // 40))
        t = np.r_[t, t[d]]
        y = np.r_[y, y[d] * (1 + pick(r, 0, 0.002) * r.standard_normal(len(d)))]
        did.append("dup")
        q = np.argsort(t, kind="stable")
        t, y = t[q], y[q]
    if r.random() < 0.5:
        c = r.uniform(0.2, 0.8) * t[-1]
        t = np.where(t > c, t - r.uniform(2, 6) * dt, t)
        did.append("clock-back")
    if r.random() < 0.6 or not did:
        q = np.arange(len(t)).astype(float) + r.uniform(0, pick(r, 4, 4, 4 * n), len(t))
        q = np.argsort(q)
        t, y = t[q], y[q]
        did.append("unordered")
    o["t"], o["y"] = t, y
    o["note"] += " " + "+".join(did)


G, F, P_ = {"growing"}, {"flat"}, {"plateauing"}


# ---------- growing
@family
def leak_small(r):
    W, n = window(r, nmin=120)
    return smooth(r, W, n, linear(level(r), W, r.uniform(0.045, 0.09)), G, 1)


@family
def leak_mid(r):
    W, n = window(r)
    return smooth(r, W, n, linear(level(r), W, logu(r, 0.09, 0.4)), G, 1)


@family
def leak_big(r):
    W, n = window(r)
    return smooth(r, W, n, linear(level(r), W, logu(r, 0.4, 6)), G, 1, cap=0.08, z=(8, 60))


@family
def leak_noisy(r):
    W, n = window(r, nmin=150)
    return smooth(r, W, n, linear(level(r), W, logu(r, 0.08, 0.5)), G, 1, z=(4.4, 6.5), cap=0.3)


@family
def leak_ar99(r):
    W, n = window(r, nmin=200)
    return smooth(r, W, n, linear(level(r), W, logu(r, 0.06, 0.6)), G, 1, s=spec(r, "ar99"), z=(4.6, 14))


@family
def leak_heavytail(r):
    W, n = window(r, nmin=100)
    return smooth(r, W, n, linear(level(r), W, logu(r, 0.06, 0.6)), G, 1, s=spec(r, "heavy"), z=(4.8, 30))


@family
def leak_spikes(r):
    W, n = window(r, nmin=100)
    return smooth(r, W, n, linear(level(r), W, logu(r, 0.08, 0.8)), G, 1, z=(6, 40), cap=0.05, post=spikes)


@family
def leak_quantised(r):
    W, n = window(r)
    L = level(r)
    rise = logu(r, 0.06, 0.6)
    return smooth(r, W, n, linear(L, W, rise), G, 1, z=(7, 40), quant=L * rise / r.uniform(4.5, 14))


@family
def leak_gappy(r):
    W, n = window(r, nmin=120)
    return smooth(
        r, W, n, linear(level(r), W, logu(r, 0.06, 0.8)), G, 1, mode="gappy", post=zeros if r.random() < 0.4 else None
    )


def cyc_shape(r, period, amp, weekly=False):
    ph = r.uniform(0, 1)
    k = r.uniform(0, 0.35)
    ph2 = r.uniform(0, 6.28)
    K = r.uniform(0.97, 1.03, 60)
    ph3 = r.uniform(0, 6.28)

    def f(t):
        x = 2 * np.pi * (np.asarray(t) / period + ph)
        mod = K[(np.asarray(t) / DAY).astype(int) % 60]
        if not weekly:
            return amp * mod * (np.sin(x) + k * np.sin(2 * x + ph2))
        u = (np.asarray(t) / period + ph) % 1  # smooth weekday/weekend shape with a small daily part
        we = 1 / (1 + np.exp(-(u - 0.71) / 0.01)) * 1 / (1 + np.exp((u - 0.995) / 0.01))
        return amp * mod * (1 - 2 * we + 0.25 * np.sin(2 * np.pi * np.asarray(t) / DAY + ph3))

    return f


def daily_setup(r, dmin=4.5):
    W = logu(r, dmin * DAY, 21 * DAY)
    n = int(logu(r, max(150, 24 * W / DAY), 2000))
    L = level(r)
    a = logu(r, 0.02, 0.2)
    return W, n, L, a


@family
def daily_leak(r):
    W, n, L, a = daily_setup(r)
    rise = logu(r, max(0.06, 1.0 * a), 1.2)
    return smooth(
        r, W, n, linear(L, W, rise), G, 1, cycle=(DAY, a), cyc=cyc_shape(r, DAY, a * L), z=(6, 40), cap=0.5 * a
    )


@family
def weekly_leak(r):
    W = 21 * DAY
    n = int(logu(r, 300, 2000))
    L = level(r)
    a = logu(r, 0.02, 0.1)
    rise = logu(r, max(0.1, 2.5 * a), 1)
    return smooth(
        r,
        W,
        n,
        linear(L, W, rise),
        G,
        1,
        cycle=(7 * DAY, a),
        cyc=cyc_shape(r, 7 * DAY, a * L, True),
        z=(8, 40),
        cap=0.3 * a,
    )


@family
def logarithm(r):
    W, n = window(r, nmin=100)
    L = level(r)
    t0 = W * logu(r, 0.005, 0.1)
    b = logu(r, 0.05, 0.3)
    return smooth(
        r, W, n, lambda t: L * (1 + b * np.log1p(np.asarray(t) / t0)), G | P_, 1, asym=True, z=(6, 50), cap=0.05
    )


@family
def square_root(r):
    W, n = window(r, nmin=100)
    L = level(r)
    b = logu(r, 0.1, 1.5)
    return smooth(r, W, n, lambda t: L * (1 + b * np.sqrt(np.asarray(t) / W)), G, 1, z=(5, 40), cap=0.05)


@family
def power_law(r):
    W, n = window(r, nmin=100)
    L = level(r)
    b = logu(r, 0.1, 1.5)
    e = pick(r, r.uniform(0.6, 0.85), r.uniform(1.2, 2.2))
    return smooth(r, W, n, lambda t: L * (1 + b * (np.asarray(t) / W) ** e), G, 1, z=(5, 40), cap=0.05)


@family
def leak_plus_fill(r):
    W, n = window(r, nmin=150)
    L = level(r)
    b = logu(r, 0.05, 0.8)
    tau = W * logu(r, 0.01, 0.1)
    k = logu(r, 0.08, 0.6)

    def lk(t):
        return L * k * np.asarray(t) / W

    return smooth(
        r, W, n, lambda t: L * (1 + b * fillc(np.asarray(t), tau)) + lk(t), G, 1, leak=lk, z=(5.5, 40), cap=0.05
    )


@family
def late_leak(r):
    W, n = window(r, nmin=150)
    L = level(r)
    h = r.uniform(0.35, 0.75) * W
    rise = logu(r, 0.06, 0.6)
    return smooth(
        r, W, n, lambda t: L * (1 + rise * np.maximum(np.asarray(t) - h, 0) / (W - h)), G, 1, z=(5.5, 40), cap=0.04
    )


def stair(W, at, size, ramp=0.0):
    at, size = np.asarray(at), np.asarray(size)

    def f(t):
        x = np.asarray(t, float)[..., None] - at
        return (size * (np.clip(x / ramp, 0, 1) if ramp > 0 else (x >= 0))).sum(-1)

    return f


@family
def leak_portions(r):
    """leaks a portion at a time (a job, a reload, a burst): 12 to 40 of them, jumps or short ramps"""
    W, n = window(r, nmin=250)
    L = level(r)
    k = int(r.integers(12, 41))
    g = r.gamma(4, 1, k + 1)
    at = np.cumsum(g)[:k] / g.sum() * W * 1.02
    at = at[at < 0.985 * W]
    k = len(at)
    if k < 12 or at[-1] < 0.88 * W:
        raise Retry
    sz = r.lognormal(0, 0.35, k)
    rise = logu(r, 0.12, 1.5)
    sz *= rise * L / sz.sum()
    f = stair(W, at, sz, pick(r, 0, 0, 0.4) * W / k)

    def m(t):
        return L + f(t)

    o = smooth(r, W, n, m, G, 1, z=(8, 80), cap=0.35 * rise / k / (1 + rise), slope=False)

    def pt(p):
        c = int((at < p * W).sum())
        q = (float(m(p * W)) - L) / float(m(p * W))
        S = set()
        if q < 0.033:
            S.add("flat")
        if c:
            S.add("growing")
        if 1 <= c < 8:
            S.add("stepped")
        if c <= 1:
            S |= {"flat"} if q < 0.05 else set()
        return S

    o["parts"] = parts_of(W, pt)
    o["note"] += f" portions={k}"
    return o


# ---------- collectors
def teeth(r, W, P, jit, cap=4000):
    x = [-r.uniform(0, 1) * P]
    while x[-1] < W:
        x.append(x[-1] + P * max(0.3, 1 + jit * r.standard_normal()))
    return np.array(x)


def saw(r, W, floor, H, edges, hj=0.0):
    h = H * (1 + hj * r.standard_normal(len(edges)))

    def f(t):
        t = np.asarray(t, float)
        i = np.searchsorted(edges, t, side="right") - 1
        u = (t - edges[i]) / (edges[np.minimum(i + 1, len(edges) - 1)] - edges[i] + 1e-9)
        return floor(t) + h[i] * u

    return f


def gc(r, jit, hj, rise=0.0, tmin=6, tmax=40):
    nt = logu(r, tmin, tmax)
    n = int(min(2000, max(nt * logu(r, 9, 40), 80)))
    if n / nt < 8:
        raise Retry
    W = logu(r, 1800, 21 * DAY)
    t = times(r, W, n, pick(r, "even", "jitter", "poisson" if n / nt > 15 else "jitter"))
    L = level(r)
    H = L * logu(r, 0.1, 1.2)
    P = W / nt
    fl = linear(L, W, rise)
    ed = teeth(r, W, P, jit)
    s = spec(r)
    sd = H * logu(r, 0.004, 0.05)
    y = saw(r, W, fl, H, ed, hj)(t) + sd * unit_noise(r, t, s)
    return (
        t,
        y,
        W,
        P,
        L,
        H,
        fl,
        ed,
        f"teeth={nt:.1f} H={H / L:.2f} rise={rise:.2f} sd={sd / H:.3f}H jit={jit:.2f} n/tooth={n / nt:.0f}",
    )


def gc_parts(W, ed, fl=None):
    def pt(p):
        c = (np.diff(np.minimum(np.maximum(ed, 0), p * W)) > 0).sum()  # teeth touched
        full = int(((ed[:-1] >= 0) & (ed[1:] <= p * W)).sum())
        if c <= 1:
            return {"growing", "sawtooth", "flat"}
        q = 0 if fl is None else float(fl(p * W) / fl(0)) - 1
        if fl is None or q < 0.03:
            S = {"sawtooth"}
            if full < 3:
                S |= {"growing", "flat", "stepped"}
            if fl is not None:
                S |= {"flat"}
            if q > 0.02:
                S.add("growing")
            return S
        return {"growing", "sawtooth"} if full < 5 or q < 0.05 else {"growing"}

    return parts_of(W, pt)


@family
def gc_saw(r):
    t, y, W, P, L, H, fl, ed, note = gc(r, r.uniform(0, 0.06), r.uniform(0, 0.03))
    return dict(
        t=t,
        y=y,
        accept={"sawtooth"} if H > 0.15 * L else {"sawtooth", "flat"},
        grows=0,
        slope=None,
        parts=gc_parts(W, ed),
        note=note,
    )


@family
def gc_saw_irregular(r):
    t, y, W, P, L, H, fl, ed, note = gc(r, r.uniform(0.15, 0.3), r.uniform(0, 0.1), tmin=9)
    return dict(
        t=t,
        y=y,
        accept={"sawtooth", "flat"} if H < 0.25 * L else {"sawtooth"},
        grows=0,
        slope=None,
        parts=gc_parts(W, ed),
        note=note,
    )


@family
def gc_saw_fast(r):
    """teeth faster than the scrape: looks like uniform noise"""
    W, n = window(r, nmin=150)
    t = times(r, W, n)
    L = level(r)
    H = L * logu(r, 0.03, 0.25)
    P = W / n * r.uniform(0.3, 2.2)
    ed = teeth(r, W, P, r.uniform(0.05, 0.2))
    y = saw(r, W, linear(L, W, 0), H, ed)(t) + 0.02 * H * r.standard_normal(len(t))
    if np.sqrt(12 / len(t)) * H * 0.29 > 0.0075 * L:
        raise Retry
    return dict(
        t=t,
        y=y,
        accept={"sawtooth", "flat"},
        grows=0,
        slope=None,
        parts=parts_of(W, lambda p: F | {"sawtooth"}),
        note=f"H={H / L:.2f} n/tooth={P * n / W:.1f}",
    )


@family
def gc_rising_floor(r):
    rise = logu(r, 0.12, 1.0)
    t, y, W, P, L, H, fl, ed, note = gc(r, r.uniform(0, 0.12), r.uniform(0, 0.05), rise=rise, tmin=9)
    if rise * L < 0.3 * H:
        raise Retry
    return dict(t=t, y=y, accept=G, grows=1, slope=rise * L / W * 3600 * 1024, parts=gc_parts(W, ed, fl), note=note)


# ---------- restarts
def incs(r, W, k, fmin=0.12, regular=False):
    while True:
        x = (
            np.r_[0, np.sort(r.uniform(0, 1, k)), 1]
            if not regular
            else np.r_[0, (np.arange(1, k + 1) + r.uniform(-0.1, 0.1, k)) / (k + 1), 1]
        )
        if np.diff(x).min() >= fmin:
            return x * W


def inc_of(t, ed):
    return np.clip(np.searchsorted(ed, t, side="right") - 1, 0, len(ed) - 2)


def restart_leak(r, told):
    W, n = window(r, wmin=3 * 3600, nmin=200)
    k = int(r.integers(1, 4))
    t = times(r, W, n, pick(r, "even", "jitter", "poisson"))
    for _ in range(200):
        ed = incs(r, W, k)
        le = np.diff(ed)
        if told or le.max() / le.min() > 1.6:
            break
    L = level(r)
    rise = logu(r, 0.15, 1.2) if told else logu(r, 0.6, 3)  # over the whole window's length
    warm = r.uniform(0.05, 0.3)
    tau = W * r.uniform(0.002, 0.008)
    lv = 1 + 0.01 * r.standard_normal(k + 1)
    i = inc_of(t, ed)
    up = t - ed[i]

    def own(u):
        return rise * u / W

    m = L * (lv[i] * (1 - warm * np.exp(-up / tau)) + own(up))
    s = spec(r)
    base = [(i == j).astype(float) for j in range(1, k + 1)] + [np.exp(-up / tau)]
    A = [[fillc(up, f * le.max()) * (i == j) for j in range(k + 1)] for f in (0.05, 0.12, 0.25)]
    g = Gls(t, s, m, A, base)
    sd = min(g.nearest() / logu(r, 5.5, 40), 0.04 * L)
    if not told:
        sd = min(sd, 0.06 * rise * L * le.min() / W)
    y = m + sd * unit_noise(r, t, s)
    keep = np.ones(len(t), bool)
    for e in ed[1:-1]:  # away for a moment
        keep &= ~((t > e - r.uniform(0.2, 3) * W / n) & (t < e))
    pk = [rise * x / W for x in le]

    if max(pk) < 0.055:
        raise Retry

    def pt(p):
        T = p * W
        e = np.r_[ed[ed < T], T]
        q = np.diff(e).max() * rise / W
        q = q / (1 + q)
        S = set()
        if q < 0.033:
            S |= {"flat", "plateauing"}
        if q >= 0.02:
            S.add("growing")
        if q < 0.033 and len(e) > 2:
            S.add("stepped")
        return S

    return dict(
        t=t[keep],
        y=y[keep],
        accept=G,
        grows=1,
        slope=rise * L / W * 3600 * 1024,
        parts=parts_of(W, pt),
        restarts=list(ed[1:-1]) if told else [],
        note=f"restarts={k} rise/inc={max(pk):.2f} sd={sd / L:.4f} w={s['w']:.2f} phi={s['phi']:.2f}",
    )


@family
def restart_leak_told(r):
    return restart_leak(r, True)


@family
def restart_leak_untold(r):
    return restart_leak(r, False)


@family
def oom_saw(r):
    k = logu(r, 2.4, 9)
    n = int(min(2000, max(60, k * logu(r, 20, 120))))
    W = logu(r, 3600, 21 * DAY)
    t = times(r, W, n, pick(r, "even", "jitter"))
    lim = level(r) * 2
    b = r.uniform(0.2, 0.55)
    ed = [0.0]
    rates = []
    while ed[-1] < W:
        rates.append(max(0.5, 1 + r.uniform(0.03, 0.2) * r.standard_normal()))
        ed.append(ed[-1] + W / k / rates[-1])
    ed = np.array(ed)
    i = inc_of(t, ed)
    up = t - ed[i]
    sp = np.diff(ed)[i]
    curve = r.uniform(0.8, 1.25) if r.random() < 0.3 else 1.0
    y = lim * (b + (0.995 - b) * (up / sp) ** curve) * (1 - 0.02 * r.random(len(t)) * (up / sp < 0.9))
    s = spec(r, "white")
    y = np.minimum(y + lim * logu(r, 0.001, 0.012) * unit_noise(r, t, s), lim * 0.999)
    told = r.random() < 0.4

    def pt(p):
        return G

    return dict(
        t=t,
        y=y,
        accept=G,
        grows=1,
        slope=None,
        parts=parts_of(W, pt),
        limit=lim,
        restarts=list(ed[1:-1]) if told else [],
        note=f"kills={len(ed) - 2} told={told} n/tooth={n / k:.0f}",
    )


@family
def restart_refill(r):
    """cold cache after each (told) restart fills to its bound: bounded"""
    W, n = window(r, wmin=3 * 3600, nmin=200)
    k = int(r.integers(1, 5))
    t = times(r, W, n, pick(r, "even", "jitter"))
    ed = incs(r, W, k, 0.12, r.random() < 0.4)
    le = np.diff(ed)
    tau = le.min() * r.uniform(0.04, 0.14)
    b = logu(r, 0.1, 0.8)
    L = level(r)
    i = inc_of(t, ed)
    up = t - ed[i]
    m = L * (1 + b * fillc(up, tau))
    s = spec(r)
    base = [(i == j).astype(float) for j in range(1, k + 1)]
    g = Gls(t, s, m, [[up / W]], base)
    sd = min(0.03 * L / (3.6 * g.se_line(own=True)), g.nearest() / 8, 0.02 * L) * logu(r, 0.2, 1)
    y = m + sd * unit_noise(r, t, s)

    def pt(p):
        T = p * W
        if T < ed[1]:
            return smooth_part(lambda x: L * (1 + b * fillc(np.asarray(x), tau)), T, 1.0, asym=True) | (
                F if T > 20 * tau else set()
            )
        return set(BOUNDED)

    return dict(
        t=t,
        y=y,
        accept={"plateauing", "flat", "sawtooth", "stepped"},
        grows=0,
        slope=None,
        parts=parts_of(W, pt),
        restarts=list(ed[1:-1]),
        note=f"restarts={k} b={b:.2f} tau={tau / W:.3f}W sd={sd / L:.4f}",
    )


@family
def warm_restarts(r):
    """every incarnation flat on its own level"""
    W, n = window(r, wmin=3 * 3600, nmin=150)
    k = int(r.integers(1, 4))
    t = times(r, W, n, pick(r, "even", "jitter", "poisson"))
    L = level(r)
    ed = incs(r, W, k, 0.13)
    lv = [1.0]
    for _ in range(k):
        lv.append(lv[0] * (1 + pick(r, -1, 1) * logu(r, 0.06, 0.3)))
    if min(abs(a - b) for a, b in zip(lv, lv[1:])) < 0.045:
        raise Retry
    lv = np.array(lv)
    told = r.random() < 0.5
    return steps_series(
        r, W, t, L, ed, lv, {"stepped", "flat"} if told else {"stepped"}, restarts=list(ed[1:-1]) if told else []
    )


# ---------- bounded
def steps_series(r, W, t, L, ed, lv, accept, restarts=()):
    i = inc_of(t, ed)
    m = L * lv[i]
    s = spec(r)
    jump = np.abs(np.diff(lv)).min() * L
    A = [[t / W]] + [[fillc(t, f * W)] for f in (0.03, 0.1, 0.25)] + [[np.sqrt(t / W)]]
    g = Gls(t, s, m, A, [])
    sd = min(g.nearest() / logu(r, 8, 50), jump / r.uniform(4, 15))
    # flat between: 3 % over the window excluded given the known steps
    g2 = Gls(t, s, m, [], [(i == j).astype(float) for j in range(1, len(lv))])
    sd = min(sd, 0.03 * L / (3.6 * g2.se_line()))
    y = m + sd * unit_noise(r, t, s)
    if min((i == j).sum() for j in range(len(lv))) < 12:
        raise Retry

    def pt(p):
        T = p * W
        e = ed[(ed < T) & (ed > 0)]
        if not len(e):
            return F
        S = {"stepped"}
        x = lv[: len(e) + 1]
        if np.ptp(x) < 0.03 or len(restarts):
            S.add("flat")
        if T - e[-1] < 0.08 * T:
            S.add("flat") if len(e) == 1 else None
            if x[-1] > x[-2]:
                S.add("growing")
        if len(e) == 1 and x[1] > x[0] and e[0] < 0.2 * T:
            S.add("plateauing")
        return S

    return dict(
        t=t,
        y=y,
        accept=accept,
        grows=0,
        slope=None,
        parts=parts_of(W, pt),
        restarts=list(restarts),
        note="levels="
        + "/".join(f"{v:.2f}" for v in lv)
        + f" sd={sd / L:.4f} w={s['w']:.2f} phi={s['phi']:.2f} told={bool(len(restarts))}",
    )


@family
def step_one(r):
    W, n = window(r, nmin=80)
    t = times(r, W, n)
    a = r.uniform(0.25, 0.78)
    return steps_series(
        r,
        W,
        t,
        level(r),
        np.array([0, a, 1]) * W,
        np.array([1, 1 + pick(r, 1, 1, -1) * logu(r, 0.06, 0.4)]),
        {"stepped"},
    )


@family
def steps_several(r):
    W, n = window(r, nmin=150)
    t = times(r, W, n)
    k = int(r.integers(2, 5))
    ed = incs(r, W, k, 0.11)
    sg = pick(r, "up", "any", "any")
    d = np.array([logu(r, 0.07, 0.3) * (1 if sg == "up" else pick(r, 1, -1)) for _ in range(k)])
    if sg == "up" and k > 3:
        raise Retry
    lv = np.r_[1, 1 + np.cumsum(d)]
    if lv.min() < 0.4:
        raise Retry
    return steps_series(r, W, t, level(r), ed, lv, {"stepped"})


def fill(r, tf, cycle=None, **k):
    W, n = window(r, nmin=120)
    L = level(r)
    b = logu(r, 0.08, 3)
    tau = W * tf

    def m(t):
        return L * (1 + b * fillc(np.asarray(t), tau))

    return smooth(r, W, n, m, P_, 0, asym=True, want="plateauing", z=(5, 50), cap=0.04, **k)


@family
def fill_fast(r):
    return fill(r, logu(r, 0.03, 0.09))


@family
def fill_slow(r):
    return fill(r, r.uniform(0.09, 0.16))


@family
def fill_daily(r):
    W, n, L, a = daily_setup(r, 6)
    a = min(a, 0.08)
    b = logu(r, max(0.15, 3 * a), 1.5)
    tau = W * r.uniform(0.05, 0.14)
    return smooth(
        r,
        W,
        n,
        lambda t: L * (1 + b * fillc(np.asarray(t), tau)),
        P_,
        0,
        asym=True,
        cycle=(DAY, a),
        cyc=cyc_shape(r, DAY, a * L),
        want="plateauing",
        z=(6, 40),
        cap=0.3 * a,
    )


@family
def fill_ramp(r):
    """a cache that fills at a constant rate up to its bound"""
    W, n = window(r, nmin=120)
    L = level(r)
    b = logu(r, 0.1, 2)
    h = W * r.uniform(0.12, 0.45)
    o = smooth(
        r,
        W,
        n,
        lambda t: L * (1 + b * np.minimum(np.asarray(t) / h, 1)),
        P_,
        0,
        asym=True,
        want="plateauing",
        z=(6, 50),
        cap=0.04,
    )
    for p in PARTS:  # on the ramp nothing bends yet
        if p * W <= 1.05 * h and b * p * W / h > 0.03:
            o["parts"][p] = G | {"plateauing", "insufficient"} if p * W > 0.95 * h else G | {"insufficient"}
    return o


@family
def high_water(r):
    """allocator that keeps its peaks: a few big steps, rarer and smaller, up to a maximum"""
    W, n = window(r, nmin=200)
    t = times(r, W, n)
    L = level(r)
    k = int(r.integers(4, 8))
    f0 = r.uniform(0.01, 0.03)
    last = r.uniform(0.25, 0.45)
    at = np.exp(np.linspace(np.log(f0), np.log(last), k) + r.normal(0, 0.1, k)) * W
    at.sort()
    sz = (0.65 ** np.arange(k)) * r.uniform(0.6, 1.4, k)
    b = logu(r, 0.3, 2)
    sz *= b / sz.sum()
    f = stair(W, at, sz)
    s = spec(r)
    m = L * (1 + f(t))
    g = Gls(t, s, m, alts_for_plateau(t), [])
    sd = min(g.nearest() / logu(r, 6, 50), 0.03 * L / (3.6 * g.se_line(own=True)), 0.5 * sz.min() * L)
    y = m + sd * unit_noise(r, t, s)

    def pt(p):
        T = p * W
        e = at[at < T]
        if not len(e):
            return F
        S = {"plateauing", "stepped"}
        if e[-1] > 0.5 * T:
            S.add("growing")
        return S

    return dict(
        t=t,
        y=y,
        accept={"plateauing", "stepped"},
        grows=0,
        slope=None,
        parts=parts_of(W, pt),
        note=f"steps={k} last={at[-1] / W:.2f} b={b:.2f} sd={sd / L:.4f}",
    )


def flat(r, nmin=60, drift=0.0, accept=F, **k):
    W, n = window(r, nmin=nmin)
    L = level(r)
    k.setdefault("z", (4, 40))
    k.setdefault("cap", 0.1)
    return smooth(r, W, n, linear(L, W, drift), accept, 0, want="flat", **k)


@family
def flat_white(r):
    return flat(r, s=spec(r, "white"))


@family
def flat_ar(r):
    return flat(r, 100, s=spec(r, pick(r, "ar", "mix")))


@family
def flat_ar99(r):
    return flat(r, 150, s=spec(r, "ar99"), z=(4, 12))


@family
def flat_heavytail(r):
    return flat(r, 100, s=spec(r, "heavy"), z=(4, 20))


@family
def flat_spikes(r):
    return flat(r, 100, z=(6, 40), cap=0.03, post=spikes)


@family
def flat_gappy(r):
    return flat(r, 120, mode="gappy", post=zeros if r.random() < 0.5 else None)


@family
def flat_drift(r):
    return flat(r, 150, drift=r.uniform(0.002, 0.0065), z=(15, 100))


@family
def flat_quantised(r):
    W, n = window(r)
    L = level(r)
    q = L * logu(r, 0.001, 0.012)
    L = q * (int(L / q) + r.uniform(0.2, 0.8))
    return smooth(r, W, n, linear(L, W, 0), F, 0, want="flat", z=(8, 40), cap=min(0.05, 0.8 * q / L), quant=q)


@family
def flat_constant(r):
    W, n = window(r)
    t = times(r, W, n)
    L = level(r)
    y = np.full(len(t), kib(L))
    if r.random() < 0.6:
        y = y + 4 * r.integers(0, 4, len(t)).astype(float)
    if r.random() < 0.3:
        y = y + np.where(t > r.uniform(0.2, 0.8) * W, 0.0015 * L, 0)
    return dict(t=t, y=y, accept=F, grows=0, slope=None, parts=parts_of(W, lambda p: F), note="constant or a few pages")


@family
def flat_startup(r):
    """a start-up rise in the first 2 % of the window"""
    W, n = window(r, nmin=250)
    L = level(r)
    b = r.uniform(0.2, 0.8)
    tau = W * r.uniform(0.001, 0.004)
    t = times(r, W, n, pick(r, "even", "jitter"))
    s = spec(r, pick(r, "white", "mix"))
    m = L * (1 - b * np.exp(-t / tau))
    g = Gls(t, s, m, [], [np.exp(-t / tau)])
    sd = min(0.03 * L / (logu(r, 4, 20) * g.se_line()), 0.05 * L)
    y = np.maximum(m + sd * unit_noise(r, t, s), 0.1 * L)
    return dict(
        t=t,
        y=y,
        accept=F | P_,
        grows=0,
        slope=None,
        parts=parts_of(W, lambda p: F | P_),
        note=f"b={b:.2f} tau={tau / W:.4f}W sd={sd / L:.4f}",
    )


@family
def flat_hump(r):
    """a job comes, takes memory, gives it back"""
    W, n = window(r, nmin=200)
    t = times(r, W, n, pick(r, "even", "jitter"))
    L = level(r)
    k = int(r.integers(1, 3))
    s = spec(r)
    c = np.zeros(len(t))
    H = []
    for j in range(k):
        a = r.uniform(0.1 + 0.4 * j, 0.3 + 0.4 * j) * W
        w = r.uniform(0.04, 0.13) * W
        h = logu(r, 0.1, 0.6)
        x = (t - a) / w
        c += h * (
            np.where((x > 0) & (x < 1), 1, 0)
            if r.random() < 0.6
            else np.where((x > 0) & (x < 1), np.minimum(1, np.minimum(x, 1 - x) * 3), 0)
        )
        H.append((a, a + w))
    m = L * (1 + c)
    g = Gls(t, s, np.ones_like(t), [], [c])
    sd = min(0.03 * L / (logu(r, 4, 20) * g.se_line()), 0.04 * L)
    y = m + sd * unit_noise(r, t, s)

    def pt(p):
        T = p * W
        S = {"flat"}
        for a, b in H:
            if a < T:
                S.add("stepped")
            if a < T < b + 0.12 * T:
                S |= {"growing", "plateauing"}
        if H[-1][0] < T and k > 1:
            S.add("sawtooth")
        return S

    return dict(
        t=t,
        y=y,
        accept={"flat", "stepped"} | ({"sawtooth"} if k > 1 else set()),
        grows=0,
        slope=None,
        parts=parts_of(W, pt),
        note=f"humps={k} sd={sd / L:.4f}",
    )


@family
def daily_flat(r):
    W, n, L, a = daily_setup(r)
    return smooth(
        r,
        W,
        n,
        linear(L, W, 0),
        {"flat", "sawtooth"},
        0,
        cycle=(DAY, a),
        cyc=cyc_shape(r, DAY, a * L),
        want="flat",
        z=(4.5, 30),
        cap=0.5 * a,
    )


@family
def weekly_flat(r):
    W = 21 * DAY
    n = int(logu(r, 300, 2000))
    L = level(r)
    a = logu(r, 0.015, 0.08)
    return smooth(
        r,
        W,
        n,
        linear(L, W, 0),
        {"flat", "sawtooth"},
        0,
        cycle=(7 * DAY, a),
        cyc=cyc_shape(r, 7 * DAY, a * L, True),
        want="flat",
        z=(6, 40),
        cap=0.3 * a,
    )


@family
def messy_flat(r):
    return flat(r, 120, z=(6, 40), post=mess, mode="jitter")


@family
def messy_leak(r):
    W, n = window(r, nmin=120)
    return smooth(r, W, n, linear(level(r), W, logu(r, 0.08, 0.8)), G, 1, z=(6, 40), cap=0.05, post=mess, mode="jitter")


@family
def zeros_mixed(r):
    if r.random() < 0.5:
        return flat(r, 100, z=(5, 40), cap=0.05, post=zeros)
    W, n = window(r, nmin=100)
    return smooth(r, W, n, linear(level(r), W, logu(r, 0.08, 0.8)), G, 1, z=(6, 40), cap=0.05, post=zeros)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, required=True)
    ap.add_argument("--each", type=int, default=10)
    ap.add_argument("--out", required=True)
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    rows = []
    for fam, f in FAM.items():
        if a.only and fam not in a.only.split(","):
            continue
        for k in range(a.each):
            for tries in range(300):
                r = np.random.default_rng([a.seed, zlib.crc32(fam.encode()), k, tries])
                try:
                    o = f(r)
                except Retry:
                    continue
                break
            else:
                raise SystemExit(f"no luck: {fam}")
            big = np.median(o["y"]) / (60 * 1024**2)
            if big > 1:  # keep to 60 GiB
                c = 1 / (big * r.uniform(1, 3))
                o["y"] = o["y"] * c
                if o["slope"] is not None:
                    o["slope"] *= c
                if o.get("limit"):
                    o["limit"] *= c
            y = o["y"] if o.get("noround") else kib(o["y"])
            if o.get("zeros"):
                y = np.where(o["y"] == 0, 0, y)
            t0 = 0.0 if r.random() < 0.85 else 1.70e9 + float(int(r.uniform(0, 5e7)))  # some come with unix times
            o["t"] = np.round(o["t"] + t0, 0 if o["t"].max() / len(o["t"]) > 20 else 2)
            o["restarts"] = [x + t0 for x in o.get("restarts", [])]
            if "limit" not in o:
                o["limit"] = float(y.max() * r.uniform(1.4, 4)) if r.random() < 0.3 else None
            o["y"] = np.round(y)
            o["family"] = fam
            o["epoch"] = int(t0 > 0)
            o["tries"] = tries
            rows.append(o)
    np.random.default_rng([a.seed, 7]).shuffle(rows)

    def op(name):
        return open(os.path.join(a.out, name), "w", newline="")

    with op("series.csv") as fs, op("meta.csv") as fm, op("truth.csv") as ft, op("info.csv") as fi:
        S, M, T, I = (csv.writer(x, lineterminator="\n") for x in (fs, fm, ft, fi))
        S.writerow(["id", "t_s", "rss_kib"])
        M.writerow(["id", "limit_kib", "restarts_s"])
        T.writerow(["id", "family", "accept", "grows", "slope_bytes_per_hour_end", "part_truth"])
        I.writerow(["id", "family", "n", "window_s", "median_kib", "epoch", "tries", "note"])
        for i, o in enumerate(rows, 1):
            id_ = f"s{i:04d}"
            t, y = o["t"], o["y"]
            S.writerows(
                [id_, f"{x:.10g}" if x < 1e8 else f"{x:.2f}".rstrip("0").rstrip("."), int(v)] for x, v in zip(t, y)
            )
            M.writerow([id_, int(round(o["limit"])) if o["limit"] else "", ";".join(f"{x:.2f}" for x in o["restarts"])])
            T.writerow(
                [
                    id_,
                    o["family"],
                    setstr(o["accept"]),
                    o["grows"],
                    "" if o["slope"] is None else f"{o['slope']:.6g}",
                    ";".join(f"{p}:{setstr(o['parts'][p])}" for p in PARTS),
                ]
            )
            I.writerow(
                [
                    id_,
                    o["family"],
                    len(t),
                    f"{t.max() - t.min():.0f}",
                    int(np.median(y)),
                    o["epoch"],
                    o["tries"],
                    o["note"],
                ]
            )
    print(
        len(rows), "series,", sum(len(o["t"]) for o in rows), "samples,", len({o["family"] for o in rows}), "families"
    )


if __name__ == "__main__":
    main()
