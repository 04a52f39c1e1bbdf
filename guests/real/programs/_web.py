"""Load for web servers, and what they serve."""
import collections
import concurrent.futures
import gzip
import hashlib
import http.client
import pathlib
import random


def site(folder):
    """Files of several kinds and sizes."""
    pages = pathlib.Path(folder) / "pages"
    pages.mkdir()
    chance = random.Random(1)
    for number in range(20):
        (pages / f"page{number}.html").write_text("".join(f"<p>{chance.randrange(1000)}</p>" for _ in range(number * 200)))
        (pages / f"data{number}.bin").write_bytes(chance.randbytes(number * 5000))
    for file in [pages, *pages.iterdir()]:
        file.chmod(0o755)
    return pages


def load(port, requests, extra=()):
    """Answers by path: how many of which status and body."""
    paths = [f"/page{number}.html" for number in range(20)] + [f"/data{number}.bin" for number in range(20)]
    paths += ["/not-there", *extra]
    counts = collections.Counter()

    def client(seed):
        chance, connection, seen = random.Random(seed), None, collections.Counter()
        for number in range(requests // 4):
            if number % 25 == 0:
                connection and connection.close()
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            path = chance.choice(paths)
            seen[fetch(connection, port, path, number % 2)] += 1
        connection.close()
        return seen

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for seen in pool.map(client, range(4)):
            counts.update(seen)
    return {f"{path} {status} {digest}": count for (path, status, digest), count in sorted(counts.items())}


def fetch(connection, port, path, zipped):
    """A server that reloads may close an idle connection: asked once more then, as every browser does."""
    for attempt in (0, 1):
        try:
            connection.request("GET", path, headers={"Accept-Encoding": "gzip"} if zipped else {})
            answer = connection.getresponse()
            body = answer.read()
            break
        except (http.client.RemoteDisconnected, ConnectionError):
            connection.close()
            if attempt:
                return path, "closed", ""
    if answer.getheader("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    return path, answer.status, hashlib.sha256(body).hexdigest()[:12]
