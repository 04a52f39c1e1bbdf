"""A reporting worker with one database session for its whole life. Its identity map keeps every row it ever read."""
import random
import time
from dataclasses import dataclass, field

RANDOM = random.Random(8)


@dataclass(slots=True)
class InvoiceLine:
    article: str
    count: int
    cents: int


@dataclass(slots=True)
class Invoice:
    number: int
    customer: str
    lines: list = field(default_factory=list)
    notes: dict = field(default_factory=dict)


class Table:
    """Stands for the database: makes the row of a key."""

    def fetch_invoice(self, number):
        row = random.Random(number)
        lines = [(f"article {row.randrange(10**6)}", row.randrange(1, 9), row.randrange(9999)) for _ in range(5)]
        return number, f"customer {row.randrange(10**6)}", lines


class DatabaseSession:
    def __init__(self, table):
        self.table = table
        self.identity_map = {}
        self.queries = 0

    def load_invoice(self, number):
        key = (Invoice, number)
        if key not in self.identity_map:
            self.queries += 1
            self.identity_map[key] = self.build_invoice(number)
        return self.identity_map[key]

    def build_invoice(self, number):
        number, customer, rows = self.table.fetch_invoice(number)
        invoice = Invoice(number, customer, [InvoiceLine(*row) for row in rows])
        invoice.notes["origin"] = f"import of batch {number // 100}"
        return invoice


class ReportService:
    def __init__(self, regions):
        self.session = DatabaseSession(Table())
        self.regions = regions

    def handle_report(self):
        first = RANDOM.randrange(10**9)
        invoices = [self.session.load_invoice(first + step) for step in range(3)]
        cents = sum(line.count * line.cents for invoice in invoices for line in invoice.lines)
        return {"region": self.regions[first % len(self.regions)]["name"], "cents": cents}


def main():
    regions = [{"name": f"region {number}", "towns": [f"town {number}-{town}" for town in range(20)]}
               for number in range(12_000)]
    service = ReportService(regions)
    print("ready", flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        service.handle_report()
        time.sleep(1 / 200)


main()
