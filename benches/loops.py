"""The part of asyncio and uvloop, called by the Rust program:

loops.py trial WORKLOAD LOOP COUNT warm|cold    prints the figure of one operation
loops.py server LOOP                            prints its port and process id, and serves

What is measured stands at the head of the Rust file of each workload.
"""

import asyncio
import os
import queue
import socket
import sys
import threading
import time


class Work:
    """The sum of what was done, so that nothing can be left out."""

    def __init__(self):
        self.sum = 0

    def add(self, number):
        self.sum += number


class Delays:
    """Delays that look random, in seconds: the same as in `work.rs`."""

    def __init__(self, shortest, longest):
        self.state = 0x9E3779B97F4A7C15
        self.shortest = shortest
        self.spread = round((longest - shortest) * 1e9)

    def draw(self):
        mask = (1 << 64) - 1
        self.state ^= (self.state << 13) & mask
        self.state ^= self.state >> 7
        self.state ^= (self.state << 17) & mask
        return self.shortest + self.state % self.spread / 1e9


def cpu_of(count, loop, operations):
    work = Work()
    start = time.process_time_ns()
    operations(work)
    spent = time.process_time_ns() - start
    assert work.sum == count * (count - 1) // 2, "not all of the work was done"
    return spent / count


def callbacks(loop, count):
    def operations(work):
        for number in range(count):
            loop.call_soon(work.add, number)
        loop.call_soon(loop.stop)
        loop.run_forever()

    return cpu_of(count, loop, operations)


def chain(loop, count):
    def operations(work):
        def link(number):
            work.add(number)
            if number > 0:
                loop.call_soon(link, number - 1)
            else:
                loop.stop()

        loop.call_soon(link, count - 1)
        loop.run_forever()

    return cpu_of(count, loop, operations)


def chain_socket(loop, count):
    watched, other_end = socket.socketpair()
    watched.setblocking(False)
    loop.add_reader(watched, lambda: None)
    figure = chain(loop, count)
    loop.remove_reader(watched)
    watched.close()
    other_end.close()
    return figure


def timers_fire(loop, count):
    # A python loop arms more slowly than the others: it gets more time before the first is due.
    shortest = 6 * count / 1_000_000
    longest = shortest + 0.1
    delays = Delays(shortest, longest)

    def operations(work):
        for number in range(count):
            loop.call_later(delays.draw(), work.add, number)
        # uvloop rounds to milliseconds.
        loop.call_later(longest + 0.002, loop.stop)
        time.sleep(longest + 0.005)
        loop.run_forever()

    return cpu_of(count, loop, operations)


def timers_cancel(loop, count, later=False):
    others = Delays(100, 200)
    pending = [loop.call_later(others.draw(), print) for _ in range(100_000)]
    delays = Delays(1, 60)

    def operations(work):
        armed = []

        def tick(first):
            for timer in armed:
                timer.cancel()
            armed.clear()
            for number in range(first, min(first + 1_000, count)):
                timer = loop.call_later(delays.draw(), work.add, number)
                if later:
                    armed.append(timer)
                else:
                    timer.cancel()
                work.add(number)
            if first + 1_000 < count:
                loop.call_soon(tick, first + 1_000)
            else:
                loop.stop()

        loop.call_soon(tick, 0)
        loop.run_forever()

    figure = cpu_of(count, loop, operations)
    for timer in pending:
        timer.cancel()
    return figure


def timers_cancel_later(loop, count):
    return timers_cancel(loop, count, later=True)


def tasks(loop, count):
    def operations(work):
        async def task(number):
            work.add(number)

        async def last():
            pass

        running = {loop.create_task(task(number)) for number in range(count)}
        loop.run_until_complete(last())
        running.clear()

    return cpu_of(count, loop, operations)


def yields(loop, count):
    def operations(work):
        async def task(numbers):
            for number in numbers:
                await asyncio.sleep(0)
                work.add(number)

        async def main():
            share = count // 1_000
            shares = (range(n * share, (n + 1) * share) for n in range(1_000))
            await asyncio.gather(*[task(numbers) for numbers in shares])

        loop.run_until_complete(main())

    return cpu_of(count, loop, operations)


def timeouts(loop, count):
    def operations(work):
        async def task(numbers):
            for number in numbers:
                async with asyncio.timeout(5):
                    await asyncio.sleep(0)
                work.add(number)

        async def main():
            share = count // 1_000
            shares = (range(n * share, (n + 1) * share) for n in range(1_000))
            await asyncio.gather(*[task(numbers) for numbers in shares])

        loop.run_until_complete(main())

    return cpu_of(count, loop, operations)


def wakes(loop, count):
    def operations(work):
        left = None

        async def task(me):
            nonlocal left
            for number in range(me, count, 2):
                mine = loop.create_future()
                other, left = left, mine
                if other is not None:
                    other.set_result(None)
                await mine
                work.add(number)
            other, left = left, None
            if other is not None:
                other.set_result(None)

        async def main():
            await asyncio.gather(task(0), task(1))

        loop.run_until_complete(main())

    return cpu_of(count, loop, operations)


def bursts(loop, size, number):
    replies = queue.SimpleQueue()
    figures = []
    work = Work()

    def send_all():
        start = time.perf_counter_ns()
        played = 0
        while played < number and time.perf_counter_ns() - start < 1e9:
            for nth in range(1, size):
                loop.call_soon_threadsafe(work.add, nth)
            loop.call_soon_threadsafe(replies.put, None)
            replies.get()
            played += 1
        figures.append((time.perf_counter_ns() - start) / (played * size))
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=send_all)
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join()
    return figures[0]


def thread_wakes(loop, count):
    return bursts(loop, 1, count)


def thread_bursts(loop, count):
    return bursts(loop, 1_000, count // 1_000)


def lateness(loop, count):
    delays = Delays(0.0002, 0.0012)
    late = []

    def arm():
        delay = delays.draw()
        due = time.perf_counter() + delay

        def fire():
            late.append((time.perf_counter() - due) * 1e3)
            if len(late) < count:
                arm()
            else:
                loop.stop()

        loop.call_later(delay, fire)

    arm()
    loop.run_forever()
    late.sort()
    return late[len(late) * 99 // 100]


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


async def serve():
    listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
    port = listener.getsockname()[1]
    server = await asyncio.get_running_loop().create_server(Echo, sock=listener, backlog=1_024)
    print(port, os.getpid(), flush=True)
    await server.serve_forever()


TRIALS = [
    callbacks,
    chain,
    chain_socket,
    timers_fire,
    timers_cancel,
    timers_cancel_later,
    tasks,
    yields,
    timeouts,
    wakes,
    thread_wakes,
    thread_bursts,
    lateness,
]


def new_loop(name):
    if name == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


def main(arguments):
    if arguments[0] == "server":
        loop = new_loop(arguments[1])
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        return
    _, workload, name, count, warm_up = arguments
    trial = {trial.__name__: trial for trial in TRIALS}[workload]
    loop = new_loop(name)
    if warm_up == "warm":
        trial(loop, int(count))
    print(trial(loop, int(count)))


main(sys.argv[1:])
