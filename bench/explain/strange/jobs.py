"""Jobs in CPython. The first word: what is wrong."""
import sys
import time

handlers = []


class Job:
    def __init__(self, number):
        self.number = number
        self.tags = {"number": number, "name": f"job {number}"}


def register(number):
    """A handler for each job, and nobody ever takes one off the list."""
    handlers.append(Job(number))


def main(which):
    if which == "extension":
        import rowcodec
    for turn in range(10**9):
        done = [Job(i) for i in range(100)]
        if which == "extension":
            for i in range(3):
                rowcodec.encode_row(i)
        if which == "registry":
            for i in range(20):
                register(turn)
        time.sleep(0.02 if done else 0)


main(sys.argv[1])
