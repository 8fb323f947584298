// What every Node.js peer runs: the scenarios of benches/peers/harness (read its essay first), for another language.
//
// The producer is a process of its own, forked from the same file with `--producer`: JavaScript has one thread a process,
// and the Rust peers have two for both. Both processes read one monotonic clock, so times can be taken between them.

import { fork } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

const PRODUCERS = 8;
const BATCH = 500;
const BACKLOG_MAX = 10_000;
const BATCH_LARGE = 1_000;
const RATE = 500;
const IDLE_MS = 100;
// Some defaults are one job every two seconds.
const WARM_UP = { best: 200, defaults: 4 };
const PAUSE_MS = 2;
const QUESTION_PAUSE_MS = 10;

const nowUs = () => Number(process.hrtime.bigint() / 1000n);
const nowS = () => nowUs() / 1e6;

/** The args of job `number`, sent now: the same fields and sizes as in Rust. */
function payload(number) {
  const mixed = BigInt.asUintN(64, BigInt(number) * 0x9e3779b97f4a7c15n);
  return {
    number,
    sent_us: nowUs(),
    account: 100_000 + Number(mixed % 900_000n),
    address: `someone.${String(mixed % 10_000n).padStart(4, '0')}@example.com`,
    template: 'order_confirmation',
    trace: mixed.toString(16).padStart(16, '0'),
    retries: false,
  };
}

const batch = (first, count) => Array.from({ length: count }, (_, place) => payload(first + place));

function read(words) {
  const call = { scenario: words[0], url: process.env.DATABASE_URL, settings: 'best', seconds: 10, jobs: 50_000, limit: 60 };
  for (let place = 1; place < words.length; place += 1) {
    const name = words[place].slice(2);
    if (name === 'json') continue;
    if (name === 'producer') {
      call.producer = true;
      continue;
    }
    const value = words[(place += 1)];
    call[name === 'database-url' ? 'url' : name] = typeof call[name] === 'number' ? Number(value) : value;
  }
  return call;
}

/** The whole program of a peer; see the bottom of graphile-worker.mjs for one. */
export async function run(peer) {
  const call = read(process.argv.slice(2));
  try {
    await (call.producer ? produce(peer, call) : consume(peer, call));
    process.exit(0);
  } catch (error) {
    console.error(`error: ${error?.message ?? error}`);
    process.exit(1);
  }
}

// ---------------------------------------------------------------------------------------------------- the producer process

/** What the worker process may ask for, by name. Each answers how many jobs were sent, in how many seconds. */
const orders = {
  async fill(peer, { jobs }) {
    for (let first = 0; first < jobs; first += BATCH_LARGE) {
      await peer.enqueueMany(batch(first, Math.min(BATCH_LARGE, jobs - first)));
    }
    return jobs;
  },
  async one(peer, { jobs }) {
    for (let number = 0; number < jobs; number += 1) await peer.enqueueOne(payload(number));
    return jobs;
  },
  async sustained(peer, { seconds }, handled) {
    const until = nowS() + seconds;
    let sent = 0;
    const producer = async () => {
      while (nowS() < until) {
        if (sent + BATCH > handled() + BACKLOG_MAX) {
          await sleep(PAUSE_MS);
          continue;
        }
        const first = sent;
        sent += BATCH;
        await peer.enqueueMany(batch(first, BATCH));
      }
    };
    await Promise.all(Array.from({ length: PRODUCERS }, producer));
    return sent;
  },
  async 'enqueue-one'(peer, { seconds }) {
    const until = nowS() + seconds;
    let sent = 0;
    for (; nowS() < until; sent += 1) await peer.enqueueOne(payload(sent));
    return sent;
  },
  async 'enqueue-many'(peer, { seconds }) {
    const until = nowS() + seconds;
    let sent = 0;
    for (; nowS() < until; sent += BATCH_LARGE) await peer.enqueueMany(batch(sent, BATCH_LARGE));
    return sent;
  },
  async latency(peer, { seconds }) {
    const begun = nowS();
    const calls = [];
    let sent = 0;
    while (sent < RATE * seconds) {
      const due = Math.min(RATE * seconds, Math.floor((nowS() - begun) * RATE) + 1);
      while (sent < due) calls.push(peer.enqueueOne(payload(sent++)));
      await sleep(1);
    }
    await Promise.all(calls);
    return sent;
  },
  async pickup(peer, { seconds }) {
    const until = nowS() + seconds;
    let sent = 0;
    while (nowS() < until) {
      await peer.enqueueOne(payload(sent++));
      await sleep(IDLE_MS * (1 + Math.random()));
    }
    return sent;
  },
};

async function produce(peer, call) {
  await peer.openProducer(call);
  let handled = 0;
  process.on('disconnect', () => process.exit(0));
  process.on('message', async (message) => {
    if (message.order === undefined) {
      handled = message.handled;
      return;
    }
    try {
      handled = 0;
      const begun = nowS();
      const sent = await orders[message.order](peer, message, () => handled);
      process.send({ sent, seconds: nowS() - begun });
    } catch (error) {
      process.send({ error: String(error?.message ?? error) });
    }
  });
  process.send({ sent: 0 });
  await new Promise(() => {});
}

/** The producer as the worker process sees it. */
class Producer {
  constructor(words) {
    this.process = fork(process.argv[1], [...words, '--producer'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  }

  answer() {
    return new Promise((resolve, reject) => {
      this.process.once('message', (message) => (message.error ? reject(new Error(message.error)) : resolve(message)));
      this.process.once('exit', () => reject(new Error('the producer has ended')));
    });
  }

  async ask(order, rest = {}) {
    this.process.send({ order, ...rest });
    return this.answer();
  }
}

// ------------------------------------------------------------------------------------------------------ the worker process

/** What handlers report to. */
class Seen {
  count = 0;
  times = null;

  /** To be called first thing in every handler. */
  started(sentUs) {
    if (this.times) this.times.push(nowUs() - sentUs);
    this.count += 1;
  }

  percentile(percent) {
    if (!this.times?.length) return null;
    this.times.sort((one, other) => one - other);
    return this.times[Math.min(this.times.length - 1, Math.floor((this.times.length * percent) / 100))] / 1000;
  }
}

/** Waits until so many handlers have started, and then for the database to say that nothing is left. */
async function settled(judge, peer, seen, handled, limitS) {
  const limit = nowS() + limitS;
  while (seen.count < handled && nowS() < limit) await sleep(PAUSE_MS);
  for (;;) {
    const at = nowS();
    const left = Number((await judge.query(peer.left)).rows[0].count);
    if (left === 0 || at >= limit) return { at, left };
    await sleep(QUESTION_PAUSE_MS);
  }
}

async function consume(peer, call) {
  await peer.migrate(call);
  const judge = new pg.Client({ connectionString: call.url });
  await judge.connect();
  const producer = new Producer(process.argv.slice(2));
  await producer.answer();
  const seen = new Seen();
  const enqueues = call.scenario.startsWith('enqueue');
  const warmUp = WARM_UP[call.settings];
  let before = 0;
  if (call.scenario === 'drain') {
    await producer.ask('fill', { jobs: call.jobs });
    await judge.query('analyze');
  } else if (enqueues) {
    await producer.ask('fill', { jobs: warmUp });
    before = warmUp;
  } else {
    await peer.start(call, seen);
    await producer.ask('one', { jobs: warmUp });
    const { left } = await settled(judge, peer, seen, warmUp, call.limit);
    if (left > 0) throw new Error('the worker does not get through the first jobs');
    before = seen.count;
  }

  const lines = createInterface({ input: process.stdin });
  const line = new Promise((resolve) => lines.once('line', resolve).once('close', resolve));
  const closed = new Promise((resolve) => lines.once('close', resolve));
  console.log('ready');
  await line;
  const measured = await measure(peer, call, { judge, producer, seen, before, enqueues });
  console.log(JSON.stringify({
    peer: peer.name,
    version: peer.version,
    scenario: call.scenario,
    settings: call.settings,
    configuration: peer.configuration[call.settings],
    handled: seen.count - (enqueues ? 0 : before),
    p50_ms: seen.percentile(50),
    p95_ms: seen.percentile(95),
    p99_ms: seen.percentile(99),
    ...measured,
    per_second: measured.per / measured.seconds,
  }));
  await closed;
}

async function measure(peer, call, { judge, producer, seen, before, enqueues }) {
  if (call.scenario === 'latency' || call.scenario === 'pickup') seen.times = [];
  const begun = nowS();
  if (enqueues) {
    const { sent, seconds } = await producer.ask(call.scenario, { seconds: call.seconds });
    const there = Number((await judge.query(peer.left)).rows[0].count) - before;
    return { jobs: sent, completed: 0, seconds, per: there, finished: there === sent };
  }
  let jobs = call.jobs;
  if (call.scenario === 'drain') {
    await peer.start(call, seen);
  } else {
    const tell = setInterval(() => producer.process.send({ handled: seen.count - before }), PAUSE_MS);
    jobs = (await producer.ask(call.scenario, { seconds: call.seconds })).sent;
    clearInterval(tell);
  }
  const { at, left } = await settled(judge, peer, seen, before + jobs, call.limit);
  const completed = Math.max(0, jobs - left);
  return { jobs, completed, seconds: at - begun, per: completed, finished: left === 0 };
}
