"""The files of the web UI: what they may contain, and how they are served."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import flott.web
from flott.common.configuration import Configuration
from flott.rest.app import create_app
from flott.runtime.jobmanager.programs import ProgramStore
from flott.web.static_files import static_files
from tests.unit.rest.fake_cluster import FakeCluster

STATIC = Path(flott.web.__file__).parent / "static"
SCRIPTS = sorted(STATIC.rglob("*.js"))
TEXTS = sorted(file for file in STATIC.rglob("*") if file.suffix in (".js", ".css", ".html", ".svg"))

#: What turns text into markup or code.
DANGEROUS = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "javascript:",
    "DOMParser", "createContextualFragment", "setAttribute(\"style\"", "setHTML",
)  # fmt: skip


def name(file: Path) -> str:
    return file.relative_to(STATIC).as_posix()


Serve = Callable[..., TestClient]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    def serve(**settings: object) -> TestClient:
        configuration = Configuration.of({key.replace("__", "."): value for key, value in settings.items()})
        cluster = FakeCluster(tmp_path, configuration)
        app = create_app(cluster, ProgramStore(tmp_path / "programs", configuration))
        return TestClient(app, base_url="http://localhost:8081", raise_server_exceptions=False, follow_redirects=False)

    return serve


@pytest.mark.parametrize("file", SCRIPTS, ids=name)
def test_no_script_makes_markup_or_code_of_text(file: Path) -> None:
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", file.read_text(), flags=re.DOTALL)
    assert [word for word in DANGEROUS if word in code] == []
    if file.name != "elements.js":
        assert "srcdoc" not in code
        assert "createElement" not in code, "elements are made by elements.js"


@pytest.mark.parametrize("file", TEXTS, ids=name)
def test_no_file_names_another_origin(file: Path) -> None:
    found = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", file.read_text().replace("http://www.w3.org/2000/svg", ""))
    assert found == []


def test_the_page_has_no_inline_script_or_style() -> None:
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert "<style" not in page
    assert re.findall(r"\son\w+=|\sstyle=", page) == []


@pytest.mark.parametrize("file", SCRIPTS, ids=name)
def test_every_module_says_on_top_what_it_is_for(file: Path) -> None:
    assert file.read_text().startswith("/**\n * ")


def test_every_import_leads_to_a_file_and_every_file_is_imported() -> None:
    imported = {STATIC / "main.js"}
    for file in SCRIPTS:
        for path in re.findall(r'from "(\.[^"]+)"', file.read_text()):
            target = (file.parent / path).resolve()
            assert target.is_file(), f"{name(file)} imports {path}"
            imported.add(target)
    assert {name(file) for file in SCRIPTS} == {name(file) for file in imported}


def test_every_page_has_an_address() -> None:
    routes = (STATIC / "routes.js").read_text()
    parts = {"job_frame.js", "log_in.js", "vertex.js", "worker_stacks.js"}  # shown inside of other pages
    pages = {file.name for file in (STATIC / "pages").glob("*.js")} - parts
    assert {page for page in pages if f'"./pages/{page}"' not in routes} == set()


def test_all_files_together_are_small() -> None:
    assert sum(len(file.content) for file in static_files().values()) < 350_000


def colours(scheme: str) -> dict[str, str]:
    """The custom properties of one theme that are colours."""
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", (STATIC / "style.css").read_text())
    return {name: light if scheme == "light" else dark for name, light, dark in found}


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG has it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "phases",
    [("plan", "schedule", "run", "acknowledge", "commit"), ("align", "sync", "files", "acknowledge", "commit")],
)
def test_phases_beside_each_other_are_told_apart_without_their_hue(phases: tuple[str, ...], scheme: str) -> None:
    known = colours(scheme)
    for one, other in pairwise(phases):
        assert contrast(known[one], known[other]) >= 3, (one, other)
    for one in phases:
        assert contrast(known[one], known["surface"]) >= 3, one


def test_the_root_leads_to_the_web_ui_and_its_files_are_guarded_by_a_policy(serve: Serve) -> None:
    client = serve()
    first = client.get("/")
    assert (first.status_code, first.headers["location"]) == (307, "web/")
    for path, kind in (("/web/", "text/html"), ("/web/main.js", "text/javascript"), ("/web/style.css", "text/css")):
        reply = client.get(path)
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith(kind)
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_file_that_the_browser_has_is_not_sent_again(serve: Serve) -> None:
    client = serve()
    first = client.get("/web/main.js")
    again = client.get("/web/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/web/nosuch.js", "/web/../static_files.py", "/web/%2e%2e/static_files.py", "/webx"])
def test_nothing_but_the_files_is_served(serve: Serve, path: str) -> None:
    assert serve().get(path).status_code == 404


def test_with_a_token_the_files_are_open_and_the_data_is_not(serve: Serve) -> None:
    client = serve(flott__rest__token="s3cret")
    assert client.get("/web/").status_code == 200
    assert client.get("/").status_code == 307
    assert client.get("/flott/live").status_code == 401


def test_a_foreign_host_name_gets_no_file(serve: Serve) -> None:
    assert serve().get("/web/", headers={"Host": "evil.example"}).status_code == 403


def test_flinks_dashboard_takes_the_root_and_the_web_ui_stays(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "flink").mkdir()
    (tmp_path / "flink" / "index.html").write_text("<title>Flink</title>")
    client = serve(flott__web__dashboard=str(tmp_path / "flink"))
    assert "Flink" in client.get("/").text
    assert "Flott" in client.get("/web/").text


def in_the_wheel(root: Path) -> set[str]:
    """Return the files that hatchling takes into the wheel, or what its settings say where it is not installed."""
    try:
        from hatchling.builders.wheel import WheelBuilder  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        pass
    else:
        return {str(file.distribution_path) for file in WheelBuilder(str(root)).recurse_included_files()}
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert project["build-system"]["build-backend"] == "hatchling.build"
    hatch = project["tool"]["hatch"]["build"]
    assert set(hatch) == {"targets"}, "settings of all targets may leave files out: build the wheel and look"
    assert set(hatch["targets"]["wheel"]) == {"packages"}, "other settings may leave files out: build it and look"
    [package] = hatch["targets"]["wheel"]["packages"]
    files = {file.relative_to(root).as_posix() for file in (root / package).rglob("*") if file.is_file()}
    command = ["git", "check-ignore", "--no-index", "--stdin"]  # hatchling leaves out what git ignores
    listed = subprocess.run(command, input="\n".join(files), cwd=root, capture_output=True, text=True, check=False)
    return {file.removeprefix("src/") for file in files - set(listed.stdout.splitlines())}


def test_the_wheel_has_all_files() -> None:
    root = Path(__file__).parents[2]
    if not (root / "pyproject.toml").exists():
        pytest.skip("the tests are not beside the project")
    static = {f"flott/web/static/{name(file)}" for file in STATIC.rglob("*") if file.is_file()}
    assert static - in_the_wheel(root) == set()
    assert "flott/web/static/index.html" in static
