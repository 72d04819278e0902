"""The Kubernetes manifests agree with each other, the settings, the image and the commands."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from distributed.cli import dask_scheduler, dask_worker

from sweep_service.api.settings import Settings
from sweep_service.cli.app import app
from sweep_service.doctor.certificates import AUTHORITY, CERTIFICATE, write_certificates

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
KUSTOMIZATION = "kustomization.yaml"
ALL = [
    manifest
    for file in FILES
    if file.name != KUSTOMIZATION
    for manifest in yaml.safe_load_all(file.read_text())
]
PODS = {manifest["metadata"]["name"]: manifest for manifest in ALL if manifest["kind"] == "Deployment"}
MANUAL_SECRETS = {"sweep-tokens", "sweep-certificates"}  # created as in docs/operations.md
COMMANDS = {
    ("sweep", "serve"): typer.main.get_command(app).commands["serve"],
    ("dask", "scheduler"): dask_scheduler.main,
    ("dask", "worker"): dask_worker.main,
}


def named(kind):
    return {document["metadata"]["name"]: document for document in ALL if document["kind"] == kind}


def spec(name):
    return PODS[name]["spec"]["template"]["spec"]


def container(name):
    (result,) = spec(name)["containers"]
    return result


def labels(name):
    return PODS[name]["spec"]["template"]["metadata"]["labels"]


def chosen(selector):
    """Return the pods with these labels."""
    wanted = selector.get(
        "matchLabels", selector
    )  # a service has no matchLabels; an empty selector matches all
    return {name for name in PODS if wanted.items() <= labels(name).items()}


def test_all_but_optional_manifests_are_applied():
    listed = yaml.safe_load((FOLDER / KUSTOMIZATION).read_text())["resources"]
    assert {*listed, KUSTOMIZATION, "autoscaler.yaml"} == {file.name for file in FILES}
    assert all(
        "namespace" not in document["metadata"] for document in ALL
    )  # it is set once, in the kustomization
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert "kubectl apply -k deploy/kubernetes" in text
    assert all(f"secret generic {name}" in text for name in MANUAL_SECRETS)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_builds_manifests():
    result = subprocess.run(
        ["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=True, timeout=60
    )
    together = [
        (document["kind"], document["metadata"]["name"]) for document in yaml.safe_load_all(result.stdout)
    ]
    optional = ("HorizontalPodAutoscaler", "sweep-worker")
    assert sorted([*together, optional]) == sorted(
        (document["kind"], document["metadata"]["name"]) for document in ALL
    )


@pytest.mark.parametrize("name", PODS)
def test_deployment_selects_only_its_own_pods(name):
    assert chosen(PODS[name]["spec"]["selector"]) == {name}


@pytest.mark.parametrize("name", named("Service"))
def test_services_use_ports_of_their_pods(name):
    service = named("Service")[name]["spec"]
    assert service["type"] == "ClusterIP"  # public access needs an ingress with TLS
    assert chosen(service["selector"]) == {name}
    ports = {port["name"]: port["containerPort"] for port in container(name)["ports"]}
    assert {port["targetPort"] for port in service["ports"]} <= set(ports)


@pytest.mark.parametrize("name", PODS)
def test_volumes_and_their_sources_exist(name):
    volumes = {document["name"]: document for document in spec(name)["volumes"]}
    mounts = container(name)["volumeMounts"]
    assert {mount["name"] for mount in mounts} == set(volumes)
    for volume in volumes.values():
        if "persistentVolumeClaim" in volume:
            assert volume["persistentVolumeClaim"]["claimName"] in named("PersistentVolumeClaim")
        elif "secret" in volume:
            assert volume["secret"]["secretName"] in MANUAL_SECRETS
    paths = [mount["mountPath"] for mount in mounts]
    for variable, value in environment(name).items():
        if value.startswith("/"):
            assert any(Path(path) in (Path(value), *Path(value).parents) for path in paths), variable


def environment(name):
    """Return the variables of a container, with their values where the manifests have them."""
    items = {}
    for source in container(name).get("envFrom", ()):
        if "configMapRef" in source:
            items |= named("ConfigMap")[source["configMapRef"]["name"]]["data"]
        else:
            assert source["secretRef"]["optional"] or source["secretRef"]["name"] in MANUAL_SECRETS
    for variable in container(name).get("env", ()):
        items[variable["name"]] = variable.get("value", "")
        if "valueFrom" in variable:
            assert variable["valueFrom"]["secretKeyRef"]["name"] in MANUAL_SECRETS
    return items


@pytest.mark.parametrize("name", PODS)
def test_environment_variables_are_known(name):
    ours = {f"SWEEP_{field.upper()}" for field in Settings.model_fields} | {"SWEEP_KERNEL_CACHE"}
    for variable in environment(name):
        assert variable in ours or variable.startswith("DASK_") or variable == "MPLCONFIGDIR"
    if name != "sweep-scheduler":  # workers need the same data as the service
        assert environment(name)["SWEEP_DATA"] == environment("sweep-api")["SWEEP_DATA"]


def test_settings_accept_environment_of_service(monkeypatch):
    for variable, value in environment("sweep-api").items():
        monkeypatch.setenv(variable, value or "secret")
    settings = Settings()
    assert (settings.data, str(settings.state)) == ("/data", "/state")
    assert settings.secrets == ["secret"]


@pytest.mark.parametrize("name", PODS)
def test_commands_accept_their_arguments(name):
    command = COMMANDS[tuple(container(name)["command"])]
    given = command.make_context(command.name, list(container(name)["args"])).params
    if name == "sweep-worker":
        assert (given["nthreads"], given["n_workers"]) == (1, "1")
    ports = {port["name"]: port["containerPort"] for port in container(name).get("ports", ())}
    if name == "sweep-api":
        assert (given["host"], given["port"]) == ("0.0.0.0", ports["http"])
    if name == "sweep-scheduler":
        assert (int(given["port"]), given["dashboard_address"]) == (ports["tls"], f":{ports['dashboard']}")


def test_all_use_one_encrypted_address():
    (port,) = [
        document["port"]
        for document in named("Service")["sweep-scheduler"]["spec"]["ports"]
        if document["name"] == "tls"
    ]
    address = f"tls://sweep-scheduler:{port}"
    assert address in container("sweep-api")["args"]
    assert address in container("sweep-worker")["args"]
    for name in PODS:
        assert environment(name)["DASK_CONFIG"] == "/certificates"


def test_data_folder_has_one_service():
    items = PODS["sweep-api"]["spec"]
    assert (items["replicas"], items["strategy"]["type"]) == (1, "Recreate")
    claims = named("PersistentVolumeClaim")
    assert claims["sweep-data"]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claims["sweep-state"]["spec"]["accessModes"] == ["ReadWriteOnce"]
    probes = {
        name: probe["httpGet"]["path"] for name, probe in container("sweep-api").items() if "Probe" in name
    }
    assert probes == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


@pytest.mark.parametrize("name", PODS)
def test_no_container_is_root_or_writes_to_image(name):
    pod, inside = spec(name)["securityContext"], container(name)["securityContext"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert pod["runAsNonRoot"]
    assert f"USER {pod['runAsUser']}:{pod['runAsGroup']}" in dockerfile
    assert inside["readOnlyRootFilesystem"]
    assert not inside["allowPrivilegeEscalation"]
    assert inside["capabilities"] == {"drop": ["ALL"]}
    assert spec(name)["automountServiceAccountToken"] is False
    assert "memory" in container(name)["resources"]["limits"]


def allowed():
    """Return (from, to, port) of allowed connections; None means any."""
    connections, closed = set(), set()
    for policy in named("NetworkPolicy").values():
        targets = chosen(policy["spec"]["podSelector"])
        assert policy["spec"]["policyTypes"] == ["Ingress"]
        closed |= targets
        for rule in policy["spec"].get("ingress", ()):
            sources = [name for peer in rule.get("from", ()) for name in chosen(peer["podSelector"])] or [
                None
            ]
            ports = [document["port"] for document in rule.get("ports", ())] or [None]
            connections |= {
                (source, target, port) for source in sources for target in targets for port in ports
            }
    assert closed == set(PODS)  # pods without a policy accept all connections
    return connections


def test_only_service_is_reachable_from_outside():
    api, scheduler, worker = "sweep-api", "sweep-scheduler", "sweep-worker"
    assert allowed() == {
        (None, api, 8000),
        (api, scheduler, 8786), (worker, scheduler, 8786), (api, scheduler, 8787),
        (scheduler, worker, None), (worker, worker, None),
    }  # fmt: skip


def test_autoscaler_scales_workers():
    (autoscaler,) = named("HorizontalPodAutoscaler").values()
    assert autoscaler["spec"]["scaleTargetRef"]["name"] == "sweep-worker"
    assert "cpu" in container("sweep-worker")["resources"]["requests"]  # utilisation is relative to it


def test_certificates_work_when_mounted_as_secret(tmp_path):
    """Secrets are mounted as links into a hidden folder; the certificates name the mount's paths."""
    made, mount = tmp_path / "made", tmp_path / "certificates"
    write_certificates(made)
    text = (made / "dask.yaml").read_text().replace(str(made), str(mount))
    hidden = mount / "..2026_01_01"
    hidden.mkdir(parents=True)
    (mount / "..data").symlink_to(hidden.name)
    for name, content in ((AUTHORITY, None), (CERTIFICATE, None), ("dask.yaml", text)):
        (hidden / name).write_text(content or (made / name).read_text())
        (mount / name).symlink_to(f"..data/{name}")
    shutil.rmtree(made)
    code = "from distributed import Security as S; print(S().get_connection_args('client')['ssl_context'])"
    result = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "DASK_CONFIG": str(mount)}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert "SSLContext" in result.stdout
