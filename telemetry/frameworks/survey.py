# Which of the named packages are installed, and which files they are. Imports none of them.
# Arguments: the descriptor the answer goes to, then package names.
import importlib.util
import json
import os
import sys

sys.path = [p for p in sys.path if p]


def find(name):
    try:
        spec = importlib.util.find_spec(name)
    except Exception as e:
        return {"error": "%s: %s" % (type(e).__name__, e)}
    if spec is None:
        return None
    found = {"origin": spec.origin or ""}
    try:
        stat = os.stat(spec.origin)
        found["stamp"] = "%d/%d" % (stat.st_mtime_ns, stat.st_size)
    except (OSError, TypeError):
        pass
    return found


packages = {name: find(name) for name in sys.argv[2:]}
answer = {"executable": sys.executable, "python": sys.version.split()[0], "packages": packages}
with os.fdopen(int(sys.argv[1]), "w") as out:
    json.dump(answer, out)
