// graphile-worker, the original for Node.js.

import { Logger, makeWorkerUtils, run as work, runMigrations } from 'graphile-worker';
import pg from 'pg';
import { run } from './harness.mjs';

const logger = new Logger(() => () => {});
const KIND = 'noop';

class GraphileWorker {
  name = 'graphile-worker';
  version = '0.18.0';
  left = 'select count(*) from graphile_worker._private_jobs';
  configuration = {
    best: 'concurrentJobs 200, localQueue 500, completeJobBatchDelay and failJobBatchDelay 0, poll 100 ms, pool 10',
    defaults: 'concurrentJobs 1, poll 2 s, pool 10',
  };

  async migrate({ url }) {
    await runMigrations({ connectionString: url, logger });
  }

  async openProducer({ url }) {
    const pgPool = new pg.Pool({ connectionString: url, max: 10 });
    pgPool.on('error', (error) => console.error(error.message));
    this.utils = await makeWorkerUtils({ pgPool, logger });
  }

  enqueueOne(payload) {
    return this.utils.addJob(KIND, payload);
  }

  enqueueMany(payloads) {
    return this.utils.addJobs(payloads.map((payload) => ({ identifier: KIND, payload })));
  }

  async start({ url, settings }, seen) {
    const worker = { connectionString: url, logger };
    if (settings === 'best') {
      const batched = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
      Object.assign(worker, { concurrentJobs: 200, maxPoolSize: 10, pollInterval: 100, ...batched });
    }
    await work({ preset: { worker }, noHandleSignals: true, taskList: { [KIND]: (payload) => seen.started(payload.sent_us) } });
  }
}

await run(new GraphileWorker());
