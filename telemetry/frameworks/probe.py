# Asks one framework which GPUs it sees. Arguments: the descriptor the answer goes to, the framework's name.
# Nothing is allocated on a GPU where the framework lets us look without: somebody else may need that memory.
import json
import os
import sys

sys.path = [p for p in sys.path if p]


def torch():
    import torch as m

    answer = {"version": str(m.__version__), "devices": []}
    build = getattr(m, "version", None)
    if not getattr(build, "cuda", None) and not getattr(build, "hip", None):
        answer["note"] = "this build has no GPU support"
        return answer
    for i in range(m.cuda.device_count()):
        p = m.cuda.get_device_properties(i)
        d = {"index": i, "name": str(getattr(p, "name", ""))}
        if getattr(p, "uuid", None):
            d["uuid"] = str(p.uuid)
        if hasattr(p, "pci_bus_id"):
            d["pci"] = "%x:%x:%x.0" % (getattr(p, "pci_domain_id", 0), p.pci_bus_id, getattr(p, "pci_device_id", 0))
        answer["devices"].append(d)
    return answer


def cupy():
    import cupy as m

    runtime = m.cuda.runtime
    answer = {"version": str(m.__version__), "devices": []}
    for i in range(runtime.getDeviceCount()):
        answer["devices"].append({"index": i, "pci": str(runtime.deviceGetPCIBusId(i))})
    return answer


def tensorflow():
    import tensorflow as m

    answer = {"version": str(m.__version__), "devices": []}
    for d in m.config.list_physical_devices("GPU"):
        answer["devices"].append({"index": int(d.name.rsplit(":", 1)[1])})
    if not m.test.is_built_with_gpu_support():
        answer["note"] = "this build has no GPU support"
    return answer


def jax():
    import jax as m

    answer = {"version": str(m.__version__), "devices": []}
    try:
        devices = m.local_devices(backend="gpu")
    except RuntimeError as e:  # how JAX says that it has no GPU backend
        answer["note"] = str(e).strip().splitlines()[0] if str(e).strip() else "no GPU backend"
        return answer
    for d in devices:
        index = getattr(d, "local_hardware_id", None)
        answer["devices"].append({"index": d.id if index is None else index, "name": str(d.device_kind)})
    return answer


def pyclesperanto():
    import pyclesperanto as m

    answer = {"version": str(getattr(m, "__version__", "")), "devices": []}
    try:
        names = m.list_available_devices("gpu")
    except TypeError:  # older releases take no argument
        names = m.list_available_devices()
    for name in names:
        answer["devices"].append({"name": str(name)})
    return answer


asked = sys.argv[2]
ask = {"torch": torch, "cupy": cupy, "tensorflow": tensorflow, "jax": jax, "pyclesperanto": pyclesperanto}[asked]
try:
    reply = ask()
except BaseException as e:  # SystemExit too: a package may leave at import
    text = (str(e).strip().splitlines() or [""])[-1]
    reply = {"error": "%s: %s" % (type(e).__name__, text) if text else type(e).__name__}
with os.fdopen(int(sys.argv[1]), "w") as out:
    json.dump(reply, out)
os._exit(0)  # the answer is given: a framework's own clean-up at exit may hang
