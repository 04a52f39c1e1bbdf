"""An upload service. Its error report keeps exceptions, and with each the frames and what their locals hold."""
import random
import time

RANDOM = random.Random(4)


class InvalidInvoice(Exception):
    pass


class ErrorReport:
    kept_failures = []

    @classmethod
    def remember_failure(cls, error):
        cls.kept_failures.append(error)


class Supplier:
    def __init__(self, number):
        self.number = number
        self.name = "supplier {:06d}".format(number)
        self.accounts = ["DE{:018d}".format(RANDOM.randrange(10**17)) for _ in range(3)]
        self.terms = {"days": 30, "discount": number % 5}


def receive_upload():
    """The bytes of one upload: rows of 'article;count;cents'."""
    rows = ["article {};{};{}".format(RANDOM.randrange(10**6), RANDOM.randrange(9), RANDOM.randrange(99))
            for _ in range(60)]
    if RANDOM.random() < 0.5:
        rows.append("total;unknown;unknown")
    return "\n".join(rows).encode()


def parse_invoice(body):
    lines = [row.split(";") for row in body.decode().split("\n")]
    total = 0
    for article, count, cents in lines:
        if not count.isdigit():
            raise InvalidInvoice("row {} has no count".format(article))
        total += int(count) * int(cents)
    return total


def handle_upload(suppliers):
    supplier = RANDOM.choice(suppliers)
    body = receive_upload()
    try:
        return supplier.name, parse_invoice(body)
    except InvalidInvoice as error:
        ErrorReport.remember_failure(error)
        return supplier.name, None


def main():
    suppliers = [Supplier(number) for number in range(30_000)]
    print("ready", flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        handle_upload(suppliers)
        time.sleep(1 / 150)


main()
