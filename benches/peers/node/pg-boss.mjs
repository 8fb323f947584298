// pg-boss.

import { PgBoss } from 'pg-boss';
import { run } from './harness.mjs';

const QUEUE = 'bench';

class Boss {
  name = 'pg-boss';
  version = '12.38.0';
  left = `select count(*) from pgboss.job where name = '${QUEUE}' and state <> 'completed'`;
  configuration = {
    best: 'LISTEN/NOTIFY, batchSize 500, localConcurrency 4, burstWhenBatchFull, poll 0.5 s, pool 10',
    defaults: 'batchSize 1, poll 2 s, pool 10',
  };

  async boss({ url, settings }, supervise) {
    const boss = new PgBoss({ connectionString: url, supervise, schedule: false, useListenNotify: settings === 'best' });
    boss.on('error', (error) => console.error(error.message));
    await boss.start();
    return boss;
  }

  async migrate(call) {
    const boss = await this.boss(call, false);
    await boss.createQueue(QUEUE, call.settings === 'best' ? { notify: true } : {});
    await boss.stop();
  }

  async openProducer(call) {
    this.producer = await this.boss(call, false);
  }

  enqueueOne(payload) {
    return this.producer.send(QUEUE, payload);
  }

  enqueueMany(payloads) {
    return this.producer.insert(QUEUE, payloads.map((data) => ({ data })));
  }

  async start(call, seen) {
    const worker = await this.boss(call, true);
    const handle = async (jobs) => jobs.forEach((job) => seen.started(job.data.sent_us));
    if (call.settings !== 'best') return worker.work(QUEUE, handle);
    const pull = { pollingIntervalSeconds: 0.5, notifyPollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
    return worker.work(QUEUE, { batchSize: 500, localConcurrency: 4, ...pull }, handle);
  }
}

await run(new Boss());
