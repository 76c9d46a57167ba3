"""Prints one line for each result of a Berth job: sequence, job, state, exit code, name.
With --events one for each event: sequence, what was done, project, who, job or machine.

    python consume.py                       everything that is stored, then what comes
    python consume.py --from 1200           from a sequence on
    python consume.py --since 2026-01-31T08:00:00Z
    python consume.py --durable mailer      go on where mailer stopped, also after a crash
    python consume.py --once                end when all that is stored was read
"""

import argparse
import asyncio
import json
import os

import nats
from nats.errors import TimeoutError as NothingYet
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default=os.environ.get("BERTH_SERVER") or "nats://127.0.0.1:4222")
    parser.add_argument("--project", default="*")
    parser.add_argument("--from", dest="start", type=int, help="a sequence of the results stream")
    parser.add_argument("--since", help="a time, RFC 3339")
    parser.add_argument("--durable", help="a name under which the broker remembers what was read")
    parser.add_argument("--once", action="store_true", help="end when all that is stored was read")
    parser.add_argument("--events", action="store_true", help="events, not results")
    opts = parser.parse_args()
    opts.stream = "BERTH_EVENTS" if opts.events else "BERTH_RESULTS"
    opts.subject = f"berth.events.*.{opts.project}" if opts.events else f"berth.results.{opts.project}.>"
    return opts


def beginning(opts):
    config = ConsumerConfig(
        durable_name=opts.durable,
        filter_subject=opts.subject,
        ack_policy=AckPolicy.EXPLICIT,
        inactive_threshold=None if opts.durable else 60,
    )
    if opts.start:
        config.deliver_policy, config.opt_start_seq = DeliverPolicy.BY_START_SEQUENCE, opts.start
    elif opts.since:
        # The library hands this field on as it is; the broker wants RFC 3339.
        config.deliver_policy, config.opt_start_time = DeliverPolicy.BY_START_TIME, opts.since
    return config


async def open_consumer(js, opts):
    """Takes up a durable consumer where it stopped, or makes one. Without a name it is gone a minute after us."""
    if opts.durable:
        try:
            return await js.consumer_info(opts.stream, opts.durable)
        except NotFoundError:
            pass
    return await js.add_consumer(opts.stream, beginning(opts))


def line(sequence, result):
    job = str(result["number"])
    if "index" in result:
        job += f".{result['index']}"
    code = result["exit"]["code"] if "exit" in result else "-"  # "-": it never ran
    return "\t".join([str(sequence), job, result["state"], str(code), result.get("name", "")])


def event_line(sequence, e):
    return "\t".join([str(sequence), e["kind"], e["project"], e["by"], e.get("job") or e.get("machine") or "-"])


async def read(subscription, opts):
    text = event_line if opts.events else line
    while True:
        try:
            messages = await subscription.fetch(50, timeout=5)
        except NothingYet:
            continue
        for msg in messages:
            print(text(msg.metadata.sequence.stream, json.loads(msg.data)), flush=True)
            # Acknowledge after the work: a crash in between delivers the result again, and never loses one.
            await msg.ack_sync()
            if opts.once and msg.metadata.num_pending == 0:
                return


async def main():
    opts = options()
    nc = await nats.connect(opts.server, token=os.environ.get("BERTH_TOKEN"), max_reconnect_attempts=-1)
    try:
        js = nc.jetstream()
        consumer = await open_consumer(js, opts)
        if opts.once and consumer.num_pending == 0:
            return
        await read(await js.pull_subscribe_bind(consumer.name, opts.stream), opts)
    finally:
        await nc.close()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
