"""Check the signature of a request of `berth webhook`: verify(secret, headers["Berth-Signature"], body)."""

import hashlib
import hmac
import sys
import time


def verify(secret: bytes, header: str, body: bytes, oldest: float = 300, now: float | None = None) -> bool:
    parts = dict(part.split("=", 1) for part in header.split(",") if "=" in part)
    stamp, given = parts.get("t", ""), parts.get("v1", "")
    if not stamp.isdigit() or abs((time.time() if now is None else now) - int(stamp)) > oldest:
        return False
    mine = hmac.new(secret, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(mine, given)


if __name__ == "__main__":  # verify.py SECRET SIGNATURE < body
    if not verify(sys.argv[1].encode(), sys.argv[2], sys.stdin.buffer.read()):
        sys.exit("the signature does not fit")
