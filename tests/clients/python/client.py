"""The Python client: typed and dynamic calls, server-side apply, custom kinds, watches that go on, pages, refusals, a lease.

In: `KUBECONFIG`. Out: nothing, or the first thing that was not as on kube-apiserver.
"""

import json
import threading
import time
import uuid

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException
from kubernetes.dynamic.exceptions import ConflictError, ResourceNotFoundError
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock
from kubernetes.stream import stream

config.load_kube_config()
core, apps, custom = client.CoreV1Api(), client.AppsV1Api(), client.CustomObjectsApi()
ns = "python-" + uuid.uuid4().hex[:8]
group = ns + ".example.com"


def refused(status, call, *args, **kwargs):
    """What the server says where it refuses a call with this status."""
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert error.status == status, f"{error.status} and not {status}: {error.body}"
        return json.loads(error.body)
    raise AssertionError(f"{call.__name__} went through")


def soon(what, look):
    """What `look` finds within a while."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            found = look()
            if found:
                return found
        except (ApiException, ResourceNotFoundError) as error:
            assert getattr(error, "status", 404) == 404, error
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within 30 s")


def pod(name):
    containers = [client.V1Container(name="c", image="example.com/i")]
    return client.V1Pod(metadata=client.V1ObjectMeta(name=name, labels={"a": "b"}), spec=client.V1PodSpec(containers=containers))


def typed():
    one = pod("ignored")
    template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={"a": "b"}), spec=one.spec)
    selector = client.V1LabelSelector(match_labels={"a": "b"})
    made = apps.create_namespaced_deployment(
        ns,
        client.V1Deployment(
            metadata=client.V1ObjectMeta(name="web"), spec=client.V1DeploymentSpec(selector=selector, template=template)
        ),
    )
    assert made.spec.strategy.type == "RollingUpdate", made.spec
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/j"}]}}}}
    both = apps.patch_namespaced_deployment("web", ns, side)
    assert [one.name for one in both.spec.template.spec.containers] == ["side", "c"], both.spec
    assert apps.patch_namespaced_deployment_scale("web", ns, {"spec": {"replicas": 3}}).spec.replicas == 3
    patched = apps.patch_namespaced_deployment("web", ns, [{"op": "replace", "path": "/spec/replicas", "value": 4}])
    assert patched.spec.replicas == 4
    apps.replace_namespaced_deployment("web", ns, patched)
    patched.metadata.resource_version = made.metadata.resource_version
    assert refused(409, apps.replace_namespaced_deployment, "web", ns, patched)["reason"] == "Conflict"
    dry = core.create_namespaced_config_map(ns, {"metadata": {"name": "dry"}}, dry_run="All")
    assert dry.metadata.uid
    refused(404, core.read_namespaced_config_map, "dry", ns)


def applied():
    maps = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="v1", kind="ConfigMap")

    def apply(value, manager, **force):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"k": value}}
        return maps.server_side_apply(body=body, name="applied", namespace=ns, field_manager=manager, **force)

    apply("v", "one")
    try:
        apply("w", "two")
        raise AssertionError("a conflict went through")
    except ConflictError as error:
        assert json.loads(error.body)["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    assert apply("w", "two", force_conflicts=True).data.k == "w"


def kinds_of_its_own():
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"sails": {"type": "integer", "default": 1}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Boat", "plural": "boats"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats." + group},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    utils.create_from_dict(client.ApiClient(), definition)
    soon("boats are served", lambda: custom.list_namespaced_custom_object(group, "v1", ns, "boats"))
    boat = {"apiVersion": group + "/v1", "kind": "Boat", "metadata": {"name": "one"}, "spec": {}}
    assert custom.create_namespaced_custom_object(group, "v1", ns, "boats", boat)["spec"]["sails"] == 1
    custom.patch_namespaced_custom_object_status(group, "v1", ns, "boats", "one", {"status": {"wet": True}})
    found = lambda: dynamic.DynamicClient(client.ApiClient()).resources.get(api_version=group + "/v1", kind="Boat")
    assert soon("boats are discovered", found).get(namespace=ns, name="one").status.wet is True
    wrong = dict(boat, metadata={"name": "two"}, spec={"sails": "many"})
    assert refused(422, custom.create_namespaced_custom_object, group, "v1", ns, "boats", wrong)["reason"] == "Invalid"
    client.ApiextensionsV1Api().delete_custom_resource_definition("boats." + group, propagation_policy="Foreground")

    def gone():
        return not [one for one in client.ApisApi().get_api_versions().groups if one.name == group]

    soon("boats are gone", gone)


def watches():
    """A watch goes on where the server ended it, and hears of everything once."""
    seen, ended = [], threading.Event()
    start = core.list_namespaced_config_map(ns).metadata.resource_version

    def look():
        looking = watch.Watch()
        for event in looking.stream(core.list_namespaced_config_map, ns, resource_version=start, timeout_seconds=1):
            seen.append((event["type"], event["object"].metadata.name))
            if seen[-1] == ("DELETED", "last"):
                looking.stop()
        ended.set()

    def look_on():
        while ("DELETED", "last") not in seen:
            look()

    thread = threading.Thread(target=look_on, daemon=True)
    thread.start()
    for n in range(5):
        core.create_namespaced_config_map(ns, {"metadata": {"name": f"w-{n}", "labels": {"page": "yes"}}})
        time.sleep(0.3)
    core.create_namespaced_config_map(ns, {"metadata": {"name": "last"}})
    core.delete_namespaced_config_map("last", ns)
    assert ended.wait(30)
    thread.join(30)
    told = [("ADDED", f"w-{n}") for n in range(5)]
    assert [one for one in dict.fromkeys(seen) if one[1].startswith("w-")] == told, seen


def pages():
    page, found = core.list_namespaced_config_map(ns, limit=2, label_selector="page=yes"), []
    while True:
        found += [one.metadata.name for one in page.items]
        if not page.metadata._continue:
            break
        page = core.list_namespaced_config_map(ns, limit=2, label_selector="page=yes", _continue=page.metadata._continue)
    assert found == [f"w-{n}" for n in range(5)], found


def refusals():
    core.create_namespaced_pod(ns, pod("p"))
    try:
        stream(core.connect_get_namespaced_pod_exec, "p", ns, command=["ls"], stdout=True)
        raise AssertionError("a command ran nowhere")
    except ApiException as error:
        assert "pod p does not have a host assigned" in str(error.reason), error
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="p"))
    core.create_namespaced_pod_eviction("p", ns, eviction)
    refused(404, core.read_namespaced_pod, "p", ns)
    bad = refused(422, core.create_namespaced_config_map, ns, {"metadata": {"name": "Bad_Name"}})
    assert bad["details"]["causes"][0]["field"] == "metadata.name", bad
    names = client.V1ResourceAttributes(verb="list", resource="pods", namespace=ns)
    review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=names))
    assert client.AuthorizationV1Api().create_self_subject_access_review(review).status.allowed


def leads():
    leads = threading.Event()
    lock = ConfigMapLock("lock", ns, "python")
    election = electionconfig.Config(
        lock, lease_duration=6, renew_deadline=4, retry_period=2, onstarted_leading=leads.set, onstopped_leading=None
    )
    threading.Thread(target=leaderelection.LeaderElection(election).run, daemon=True).start()
    assert leads.wait(30), "nobody leads"


core.create_namespace({"metadata": {"name": ns}})
for check in [typed, applied, kinds_of_its_own, watches, pages, refusals, leads]:
    check()
    print("passed:", check.__name__)
core.delete_namespace(ns)
