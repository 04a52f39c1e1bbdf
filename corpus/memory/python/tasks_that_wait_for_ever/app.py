"""An order service. Each order starts a task that waits for a confirmation. For half of them none ever comes."""
import asyncio
import random
import time

RANDOM = random.Random(3)


class Order:
    def __init__(self, number):
        self.number = number
        self.lines = [{"sku": f"sku-{RANDOM.randrange(10**8)}", "count": RANDOM.randrange(9)} for _ in range(4)]
        self.address = f"{RANDOM.randrange(900)} Long Street, district {RANDOM.randrange(10**6)}"


class ConfirmationDesk:
    """Hands out a future per order, and resolves it when the warehouse answers."""

    def __init__(self):
        self.expected_answers = {}

    def expect_answer(self, number):
        future = asyncio.get_running_loop().create_future()
        self.expected_answers[number] = future
        return future

    def confirm(self, number):
        self.expected_answers.pop(number).set_result("confirmed")


async def wait_for_confirmation(desk, order):
    document = f"order {order.number}: {order.lines}".encode() * 2
    answer = await desk.expect_answer(order.number)
    return len(document), answer


def handle_order(desk, open_tasks, number):
    order = Order(number)
    task = asyncio.get_running_loop().create_task(wait_for_confirmation(desk, order))
    open_tasks.add(task)
    task.add_done_callback(open_tasks.discard)


async def main():
    stock = {f"sku-{number:07d}": {"shelf": f"shelf {number % 977}", "left": number} for number in range(60_000)}
    desk, open_tasks = ConfirmationDesk(), set()
    print("ready", flush=True)
    end, number = time.monotonic() + 120, 0
    while time.monotonic() < end and stock:
        number += 1
        handle_order(desk, open_tasks, number)
        await asyncio.sleep(1 / 500)
        if number % 2:
            desk.confirm(number)


asyncio.run(main())
