// Prints one line for each result of a Berth job: sequence, job, state, exit code, name.
// With --events one for each event: sequence, what was done, project, who, job or machine.
//
//   node consume.mjs                         everything that is stored, then what comes
//   node consume.mjs --from 1200             from a sequence on
//   node consume.mjs --since 2026-01-31T08:00:00Z
//   node consume.mjs --durable mailer        go on where mailer stopped, also after a crash
//   node consume.mjs --once                  end when all that is stored was read
import { parseArgs } from "node:util";
import { connect } from "@nats-io/transport-node";
import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager, JetStreamApiError } from "@nats-io/jetstream";

const consumerNotFound = 10014;

const { values: opts } = parseArgs({
  options: {
    server: { type: "string", default: process.env.BERTH_SERVER || "nats://127.0.0.1:4222" },
    project: { type: "string", default: "*" },
    from: { type: "string" },
    since: { type: "string" },
    durable: { type: "string" },
    once: { type: "boolean", default: false },
    events: { type: "boolean", default: false },
  },
});
const stream = opts.events ? "BERTH_EVENTS" : "BERTH_RESULTS";

const start = {
  durable_name: opts.durable,
  filter_subject: opts.events ? `berth.events.*.${opts.project}` : `berth.results.${opts.project}.>`,
  ack_policy: AckPolicy.Explicit,
};
if (opts.from) {
  Object.assign(start, { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: Number(opts.from) });
} else if (opts.since) {
  // Handed on as text: a Date would cut it to milliseconds, and results can be closer to one another than that.
  Object.assign(start, { deliver_policy: DeliverPolicy.StartTime, opt_start_time: opts.since });
}

const nc = await connect({ servers: opts.server, token: process.env.BERTH_TOKEN, maxReconnectAttempts: -1 });
try {
  const info = await open(await jetstreamManager(nc));
  if (!opts.once || info.num_pending > 0) {
    await read(await jetstream(nc).consumers.get(stream, info.name));
  }
} finally {
  await nc.close();
}

// Takes up a durable consumer where it stopped, or makes one. Without a name it is gone a moment after us.
async function open(manager) {
  if (opts.durable) {
    try {
      return await manager.consumers.info(stream, opts.durable);
    } catch (err) {
      if (!(err instanceof JetStreamApiError) || err.code !== consumerNotFound) throw err;
    }
  }
  return await manager.consumers.add(stream, start);
}

async function read(consumer) {
  const messages = await consumer.consume();
  process.once("SIGINT", () => messages.stop());
  for await (const msg of messages) {
    console.log((opts.events ? eventLine : line)(msg.seq, msg.json()));
    // Acknowledge after the work: a crash in between delivers the result again, and never loses one.
    await msg.ackAck();
    if (opts.once && msg.info.pending === 0) break;
  }
}

function line(sequence, r) {
  const job = r.index === undefined ? `${r.number}` : `${r.number}.${r.index}`;
  return [sequence, job, r.state, r.exit ? r.exit.code : "-", r.name ?? ""].join("\t"); // "-": it never ran
}

function eventLine(sequence, e) {
  return [sequence, e.kind, e.project, e.by, e.job ?? e.machine ?? "-"].join("\t");
}
