"""Procrastinate, with the scenarios of benches/peers/harness (read its essay first) for another language.

The producer is a process of its own, as for Node.js. Both processes read one monotonic clock.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import random
import sys
import time

import procrastinate
import psycopg

PRODUCERS, BATCH, BACKLOG_MAX, BATCH_LARGE = 8, 500, 10_000, 1_000
RATE, IDLE_S, PAUSE_S = 500, 0.1, 0.002
# Some defaults are slow.
WARM_UP = {"best": 200, "defaults": 4}
QUEUE, KIND, VERSION = "bench", "noop", "3.10.0"
LEFT = "select count(*) from procrastinate_jobs where status <> 'succeeded'"
CONFIGURATION = {
    "best": "concurrency 20, poll 0.5 s beside LISTEN, pool 20",
    "defaults": "concurrency 1, poll 5 s beside LISTEN, pool 10",
}


def now_us():
    return time.monotonic_ns() // 1000


def payload(number):
    """The args of one job, sent now: the same fields and sizes as in Rust."""
    mixed = number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    return {
        "number": number,
        "sent_us": now_us(),
        "account": 100_000 + mixed % 900_000,
        "address": f"someone.{mixed % 10_000:04}@example.com",
        "template": "order_confirmation",
        "trace": f"{mixed:016x}",
        "retries": False,
    }


def open_app(url, connections, started):
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=connections)
    app = procrastinate.App(connector=connector)

    @app.task(name=KIND, queue=QUEUE)
    async def noop(**job):
        started(job["sent_us"])

    return app, noop


class Producer:
    """Orders of the worker process, carried out in another one."""

    def __init__(self, task, handled):
        self.task, self.handled = task, handled

    async def one(self, number):
        await self.task.defer_async(**payload(number))

    async def many(self, first, count):
        await self.task.batch_defer_async(*[payload(number) for number in range(first, first + count)])

    async def fill(self, call):
        for first in range(0, call.jobs, BATCH_LARGE):
            await self.many(first, min(BATCH_LARGE, call.jobs - first))
        return call.jobs

    async def warm_up(self, call):
        for number in range(WARM_UP[call.settings]):
            await self.one(number)
        return WARM_UP[call.settings]

    async def sustained(self, call):
        until, sent = time.monotonic() + call.seconds, 0

        async def producer():
            nonlocal sent
            while time.monotonic() < until:
                if sent + BATCH > self.handled.value + BACKLOG_MAX:
                    await asyncio.sleep(PAUSE_S)
                    continue
                first, sent = sent, sent + BATCH
                await self.many(first, BATCH)

        await asyncio.gather(*[producer() for _ in range(PRODUCERS)])
        return sent

    async def enqueue_one(self, call):
        until, sent = time.monotonic() + call.seconds, 0
        while time.monotonic() < until:
            await self.one(sent)
            sent += 1
        return sent

    async def enqueue_many(self, call):
        until, sent = time.monotonic() + call.seconds, 0
        while time.monotonic() < until:
            await self.many(sent, BATCH_LARGE)
            sent += BATCH_LARGE
        return sent

    async def latency(self, call):
        begun, calls = time.monotonic(), []
        while len(calls) < RATE * call.seconds:
            due = min(RATE * call.seconds, int((time.monotonic() - begun) * RATE) + 1)
            while len(calls) < due:
                calls.append(asyncio.ensure_future(self.task.defer_async(**payload(len(calls)))))
            await asyncio.sleep(0.001)
        await asyncio.gather(*calls)
        return len(calls)

    async def pickup(self, call):
        until, sent = time.monotonic() + call.seconds, 0
        while time.monotonic() < until:
            await self.one(sent)
            sent += 1
            await asyncio.sleep(IDLE_S * (1 + random.random()))
        return sent


def produce(call, orders, handled):
    """The producer process."""

    async def serve():
        app, task = open_app(call.database_url, 10, lambda _: None)
        async with app.open_async():
            producer = Producer(task, handled)
            while True:
                order = orders.recv()
                begun = time.monotonic()
                sent = await getattr(producer, order)(call)
                orders.send((sent, time.monotonic() - begun))

    try:
        asyncio.run(serve())
    except EOFError:
        pass


class Worker:
    """The worker process: what it has seen, and how it asks its producer and the database."""

    def __init__(self, call):
        self.call, self.times, self.timing = call, [], False
        self.handled = multiprocessing.Value("q", 0, lock=False)
        self.orders, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=produce, args=(call, theirs, self.handled), daemon=True)
        # Before there is any connection or thread that it would inherit.
        self.process.start()
        self.judge = psycopg.connect(call.database_url, autocommit=True)
        self.before = 0

    def started(self, sent_us):
        if self.timing:
            self.times.append(now_us() - sent_us)
        self.handled.value += 1

    def left(self):
        return self.judge.execute(LEFT).fetchone()[0]

    async def ask(self, order):
        self.orders.send(order)
        return await asyncio.to_thread(self.orders.recv)

    async def settled(self, handled):
        limit = time.monotonic() + self.call.limit
        while self.handled.value < handled and time.monotonic() < limit:
            await asyncio.sleep(PAUSE_S)
        while True:
            at, left = time.monotonic(), self.left()
            if left == 0 or at >= limit:
                return at, left
            await asyncio.sleep(0.01)

    def start(self, app):
        options = {"concurrency": 20, "fetch_job_polling_interval": 0.5} if self.call.settings == "best" else {}
        # Kept, since a task that nobody holds may be collected.
        self.work = asyncio.create_task(app.run_worker_async(queues=[QUEUE], install_signal_handlers=False, **options))

    async def prepare(self, app):
        if self.call.scenario == "drain":
            await self.ask("fill")
            self.judge.execute("analyze")
        else:
            if not self.call.scenario.startswith("enqueue"):
                self.start(app)
            await self.ask("warm_up")
            if self.call.scenario.startswith("enqueue"):
                self.before = WARM_UP[self.call.settings]
            else:
                _, left = await self.settled(WARM_UP[self.call.settings])
                if left:
                    raise RuntimeError("the worker does not get through the first jobs")

    async def measure(self, app):
        # What producers are paced by counts from here.
        self.handled.value = 0
        self.timing = self.call.scenario in ("latency", "pickup")
        begun = time.monotonic()
        if self.call.scenario.startswith("enqueue"):
            sent, seconds = await self.ask(self.call.scenario.replace("-", "_"))
            there = self.left() - self.before
            return {"jobs": sent, "completed": 0, "seconds": seconds, "per_second": there / seconds, "finished": there == sent}
        if self.call.scenario == "drain":
            self.start(app)
            jobs = self.call.jobs
        else:
            jobs, _ = await self.ask(self.call.scenario)
        at, left = await self.settled(jobs)
        completed = max(0, jobs - left)
        seconds = at - begun
        rate = completed / seconds
        return {"jobs": jobs, "completed": completed, "seconds": seconds, "per_second": rate, "finished": left == 0}

    def percentile(self, percent):
        times = sorted(self.times)
        return times[min(len(times) - 1, len(times) * percent // 100)] / 1000 if times else None


async def run(call):
    worker = Worker(call)
    app, _ = open_app(call.database_url, 20 if call.settings == "best" else 10, worker.started)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await worker.prepare(app)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        measured = await worker.measure(app)
        line = {
            "peer": "procrastinate",
            "version": VERSION,
            "scenario": call.scenario,
            "settings": call.settings,
            "configuration": CONFIGURATION[call.settings],
            "handled": worker.handled.value,
            "p50_ms": worker.percentile(50),
            "p95_ms": worker.percentile(95),
            "p99_ms": worker.percentile(99),
            **measured,
        }
        print(json.dumps(line), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            pass
        # The worker is not waited for: whoever started this drops the database.
        worker.process.kill()
        os._exit(0)


def arguments():
    parser = argparse.ArgumentParser()
    names = ["sustained", "drain", "enqueue-one", "enqueue-many", "latency", "pickup"]
    parser.add_argument("scenario", choices=names)
    parser.add_argument("--database-url", default=os.environ.get("DATABASE_URL"))
    parser.add_argument("--settings", choices=["best", "defaults"], default="best")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    # It warns of apps in main modules, which this one is.
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    asyncio.run(run(arguments()))
