"""An operator written with kopf: peering, finalizers, retries, its progress in annotations, owned objects, events.

In: `KUBECONFIG`. Out: nothing, or the first thing that was not as on kube-apiserver. The operator runs in this process, in a
loop of its own; what it sees and does goes through the server.
"""

import asyncio
import threading
import time
import uuid

import kopf
from kubernetes import client, config

config.load_kube_config()
core, definitions, custom = client.CoreV1Api(), client.ApiextensionsV1Api(), client.CustomObjectsApi()
ns = "kopf-" + uuid.uuid4().hex[:8]
group = ns + ".example.com"


@kopf.on.startup()
def configure(settings, **_):
    settings.peering.mandatory = True
    settings.persistence.finalizer = "example.com/harbour"
    settings.watching.server_timeout = 2


@kopf.on.create(group, "v1", "boats")
def on_create(spec, name, body, patch, **_):
    log = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"sails": str(spec["sails"])}}
    kopf.adopt(log)
    core.create_namespaced_config_map(ns, log)
    kopf.info(body, reason="Built", message="it floats")
    patch.status["sails"] = spec["sails"]
    return {"by": "hand"}


@kopf.on.update(group, "v1", "boats", field="spec.sails")
def on_update(new, name, patch, retry, **_):
    if retry == 0:
        raise kopf.TemporaryError("the wind", delay=0.2)
    core.patch_namespaced_config_map(name, ns, {"data": {"sails": str(new)}})
    patch.status["sails"] = new


@kopf.on.delete(group, "v1", "boats")
def on_delete(name, **_):
    core.create_namespaced_config_map(ns, {"metadata": {"name": name + "-sunk"}})


def definition(group, names, status=True):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if status:
        version["subresources"] = {"status": {}}
    metadata = {"name": f"{names['plural']}.{group}"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    try:
        definitions.create_custom_resource_definition({"metadata": metadata, "spec": spec})
    except client.ApiException as error:
        assert error.status == 409, error
    soon(metadata["name"], lambda: custom.list_namespaced_custom_object(group, "v1", ns, names["plural"]))


def soon(what, look):
    """What `look` finds within a while."""
    end, found = time.monotonic() + 40, None
    while time.monotonic() < end:
        try:
            found = look()
            if found:
                return found
        except client.ApiException as error:
            assert error.status == 404, error
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within 40 s, but {found}")


def boat():
    return custom.get_namespaced_custom_object(group, "v1", ns, "boats", "one")


def drive():
    peers = lambda: custom.get_namespaced_custom_object("kopf.dev", "v1", ns, "kopfpeerings", "default").get("status")
    soon("the operator is among its peers", peers)
    body = {"apiVersion": group + "/v1", "kind": "Boat", "metadata": {"name": "one"}, "spec": {"sails": 2}}
    custom.create_namespaced_custom_object(group, "v1", ns, "boats", body)
    status = soon("it is built", lambda: boat().get("status"))
    assert status == {"sails": 2, "on_create": {"by": "hand"}}, status
    assert boat()["metadata"]["finalizers"] == ["example.com/harbour"], boat()
    owner = core.read_namespaced_config_map("one", ns).metadata.owner_references[0]
    assert (owner.kind, owner.uid) == ("Boat", boat()["metadata"]["uid"]), owner
    custom.patch_namespaced_custom_object(group, "v1", ns, "boats", "one", {"spec": {"sails": 5}})
    soon("it is rigged", lambda: boat()["status"]["sails"] == 5)
    assert core.read_namespaced_config_map("one", ns).data == {"sails": "5"}
    soon("it is told", lambda: [one for one in core.list_namespaced_event(ns).items if one.reason == "Built"])
    custom.delete_namespaced_custom_object(group, "v1", ns, "boats", "one")
    soon("it is sunk", lambda: core.read_namespaced_config_map("one-sunk", ns))
    soon("it is gone", lambda: not custom.list_namespaced_custom_object(group, "v1", ns, "boats")["items"])


def operate(ready, stop):
    asyncio.run(kopf.operator(namespaces=[ns], peering_name="default", priority=7, ready_flag=ready, stop_flag=stop))


core.create_namespace({"metadata": {"name": ns}})
definition("kopf.dev", {"kind": "KopfPeering", "plural": "kopfpeerings"}, status=False)
definition(group, {"kind": "Boat", "plural": "boats"})
peering = {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "default"}}
custom.create_namespaced_custom_object("kopf.dev", "v1", ns, "kopfpeerings", peering)
ready, stop = threading.Event(), threading.Event()
operator = threading.Thread(target=operate, args=(ready, stop), daemon=True)
operator.start()
drive()
stop.set()
operator.join(30)
assert not operator.is_alive(), "the operator does not end"
definitions.delete_custom_resource_definition("boats." + group)
core.delete_namespace(ns)
