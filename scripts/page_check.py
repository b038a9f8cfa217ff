#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Uses the page of perfpred-serve as people do, in a headless Chromium (scripts/full_check.sh page).

    scripts/page_check.py --bin build/release/bin --out build/full_check/page

Each check is a flow: what is typed, clicked or dropped, and what must then be seen. It also checks contrast and names
(axe), that the keyboard alone is enough, a phone's width, dark mode, and that the console has no error. Pictures of every
state go to --out, for people to look at. Needs playwright, axe-playwright-python,
openapi-spec-validator, and a chromium.
"""

import argparse
import json
import pathlib
import re
import shutil
import socket
import subprocess
import time

from axe_playwright_python.sync_playwright import Axe
from openapi_schema_validator import OAS30Validator, validate
from openapi_spec_validator import validate as validate_document
from playwright.sync_api import expect, sync_playwright

root = pathlib.Path(__file__).resolve().parent.parent
LLAMA = "#network=llama3.2_1b&batch_size=8&precision=bf16&input=2048&train_tokens=1000000000&device=L4@0.8&device=A100-PCIe-80GB@2.2&device=H100-SXM5-80GB@3.9"


class Page:
    """A tab on the page, which fails at the first error of its console."""

    def __init__(self, browser, url, out, **context):
        self.out = out
        self.url = url
        self.context = browser.new_context(**context)
        self.context.grant_permissions(
            ["clipboard-read", "clipboard-write"], origin=url
        )
        self.tab = self.context.new_page()
        self.errors = []
        self.requests = []
        self.tab.on(
            "console",
            lambda message: (
                message.type == "error" and self.errors.append(message.text)
            ),
        )
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("request", self.note_request)

    def note_request(self, request):
        assert request.url.startswith((self.url, "data:")), (
            f"asks elsewhere: {request.url}"
        )
        if request.method == "POST" and not request.url.endswith("v1/trace"):
            self.requests.append(json.loads(request.post_data))

    def open(self, link=""):
        self.tab.goto("about:blank")
        self.tab.goto(self.url + link)
        expect(self.tab.locator("body[data-ready]")).to_be_attached()
        self.settle()

    def settle(self):
        expect(self.tab.locator("#answers:not([aria-busy])")).to_be_attached()

    def shoot(self, name):
        self.tab.screenshot(path=self.out / f"{name}.png", full_page=True)

    def accessible(self, name):
        results = Axe().run(
            self.tab, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
        )
        assert results.violations_count == 0, f"{name}: {results.generate_report()}"

    def text(self, selector):
        return self.tab.locator(selector).inner_text()

    def link(self):
        return self.tab.evaluate("location.hash")

    def close(self):
        self.context.close()
        assert not self.errors, self.errors


def check_first_answer(page):
    page.open()
    text = page.text("#chosen")
    assert "a step" in text and "90 %:" in text and "Rests on" in text, text
    assert "the job" in text, (
        "image networks have data that they are usually trained on"
    )
    assert page.tab.locator("#devices-table tbody tr").count() == 3
    assert "fastest" in page.text(
        "#devices-table"
    ) and "smallest that fits" in page.text("#devices-table")
    for view in (
        "memory",
        "chart-time",
        "chart-batch",
        "chart-memory",
        "breakdown",
        "conditions",
        "timeline",
        "request",
    ):
        expect(page.tab.locator(f"#{view}")).to_be_visible()
    page.accessible("first")
    page.shoot("first")


def check_typing_shows_and_keeps(page):
    page.open()
    before = page.text("#chosen .big >> nth=0")
    batch = page.tab.get_by_label("batch size", exact=True)
    batch.fill("128")
    page.settle()
    assert page.text("#chosen .big >> nth=0") != before
    assert "batch_size=128" in page.link()
    batch.fill("12 apples")  # stays as it is typed, and the other fields too
    page.settle()
    assert (
        batch.input_value() == "12 apples"
        and batch.get_attribute("aria-invalid") == "true"
    )
    assert (
        "batch_size" in page.text("#status")
        and page.tab.get_by_label("precision", exact=True).input_value() == "bf16"
    )
    page.shoot("wrong_value")
    page.accessible("wrong value")
    page.tab.reload()
    expect(page.tab.locator("body[data-ready]")).to_be_attached()
    assert batch.input_value() == "12 apples"
    batch.fill("64")
    page.settle()
    assert page.text("#chosen .big >> nth=0") == before


def check_network_by_typing(page):
    page.open()
    network = page.tab.get_by_label("network", exact=True)
    names = page.tab.locator("#networks option").evaluate_all(
        "all => all.map((one) => one.value)"
    )
    assert "resnet50" in names and "meta-llama/llama-3.2-1b" in names
    network.fill("resnet5")
    page.settle()
    assert "did you mean" in page.text("#status") or "resnet50" in page.text("#status")
    network.fill("meta-llama/Llama-3.2-1B")
    page.settle()
    assert "say the input" in page.text("#network-hint")
    page.tab.get_by_label("input: sizes or words").fill("2048")
    page.tab.get_by_label("batch size", exact=True).fill("1")
    page.settle()
    assert "tokens a second" in page.text("#chosen")
    assert "say the samples or tokens" in page.text("#status")
    page.shoot("language_model")


def check_prices_and_advice(page):
    page.open(LLAMA)
    assert "cheapest" in page.text("#devices-table")
    expect(page.tab.locator("#chart-price")).to_be_visible()
    assert "does not fit" in page.text("#chosen")
    page.shoot("advice")
    page.accessible("advice")
    row = (
        page.tab.locator("#advice tbody tr", has_text="chunked")
        .filter(has=page.tab.locator(".good"))
        .first
    )
    row.get_by_role("button").click()
    page.settle()
    assert page.text("#chosen .tag >> nth=0") == "fits"
    assert "loss=chunked" in page.link()
    page.tab.get_by_role("radio", name="show H100-SXM5-80GB").check()
    page.settle()
    assert page.text("#chosen h2") == "H100-SXM5-80GB" and "chosen=2" in page.link()
    link = page.link()
    shown = page.text("#chosen")
    page.open(link)  # the link is the question
    assert page.text("#chosen") == shown
    page.shoot("language_model_priced")


def check_nothing_fits(page):
    page.open(
        "#network=llama3.1_70b&input=4096&batch_size=8&precision=fp16&device=T4&device=L4"
    )
    assert page.text("#status") == "It fits on none of these devices."
    assert (
        page.tab.locator("#advice tbody tr").count() > 0
        and page.tab.locator("#try-several").is_visible()
    )
    page.shoot("nothing_fits")
    page.accessible("nothing fits")


def check_one_device_refused(page):
    page.open(
        "#network=resnet50&batch_size=64&precision=bf16&device=T4&device=L4&chosen=1"
    )
    row = page.tab.locator("#devices-table tbody tr >> nth=0")
    assert "bf16" in row.inner_text()
    assert "1 of 2 devices answered" in page.text("#status")
    page.shoot("one_refused")


def check_timeline(page):
    """The picture has what the trace has, and the trace can be saved."""
    page.open("#network=resnet50&batch_size=64&precision=bf16&device=L4")
    lanes = page.tab.locator("#timeline-picture .lane")
    assert lanes.evaluate_all("all => all.map((one) => one.dataset.lane)") == [
        "compute",
        "host",
    ]
    assert lanes.first.locator("rect").count() > 50
    for name in ("forward", "backward", "update"):
        assert name in page.text("#timeline .legend")
    page.tab.locator("#timeline summary").click()
    assert "forward" in page.text("#timeline table")
    page.accessible("timeline")
    with page.tab.expect_download() as saved:
        page.tab.locator("#save-trace").click()
    trace = json.loads(pathlib.Path(saved.value.path()).read_text())
    end = max(one["ts"] + one["dur"] for one in trace["traceEvents"] if "ts" in one)
    step = trace["otherData"]["step_sec"]["p50"]
    assert abs(end / 1e6 - step) < 1e-6 * step
    drawn = page.tab.locator("#timeline-picture").get_attribute("aria-label")
    assert "compute works" in drawn and "host works" in drawn, drawn
    page.shoot("timeline")
    page.open(
        "#network=llama3.1_8b&input=4096&batch_size=64&precision=bf16&gpus_per_node=8x2"
        "&parallel=tp=4,pp=4&device=H100-SXM5-80GB"
    )
    names = lanes.evaluate_all("all => all.map((one) => one.dataset.lane)")
    assert {f"stage {i}, compute" for i in range(4)} <= set(names), names
    assert "stage 0, links tensors" in names, names
    assert "all stages take as long as the fullest" in page.text("#timeline")
    page.accessible("timeline of a pipeline")
    page.shoot("timeline_pipeline")


def check_several_devices(page):
    page.open(
        "#network=resnet50&batch_size=128&precision=fp16&gpus_per_node=8x2&device=V100-SXM2-16GB"
    )
    assert "16 devices" in page.text("#chosen") and "perfect scaling" in page.text(
        "#chosen"
    )
    page.shoot("several_devices")


def check_files(page):
    config = root / "tests/data/transformers/llama.json"
    page.open("#batch_size=4&precision=bf16&input=128&device=L4")
    page.tab.locator("#file").set_input_files(config)
    page.settle()
    assert "llama.json (config.json)" in page.text("#file-name")
    assert page.tab.get_by_label("network", exact=True).is_disabled()
    assert page.requests[-1][0]["config"] == config.read_text()
    assert "--config llama.json" in page.text(
        "#command"
    ) and 'predict("llama.json"' in page.text("#python")
    page.tab.reload()  # a small file stands in the link
    expect(page.tab.locator("body[data-ready]")).to_be_attached()
    page.settle()
    assert "llama.json" in page.text("#file-name") and "tokens a second" in page.text(
        "#chosen"
    )
    page.tab.get_by_role("button", name="take a network by name").click()
    page.tab.get_by_label("network", exact=True).fill("gpt2")
    page.settle()
    assert "network" in page.requests[-1][0]


def check_copies(page):
    page.open("#network=resnet50&batch_size=64&precision=bf16&device=L4@0.8&epochs=3")
    for name in ("json", "command", "python"):
        page.tab.locator(f"#copy-{name}").click()
        expect(page.tab.locator(f"#copy-{name}")).to_have_text("copied")
        page.copied = page.tab.evaluate("navigator.clipboard.readText()")
        assert page.copied == page.text(f"#{name}"), name
    asked = json.loads(page.text("#json"))
    assert asked == {
        "network": "resnet50",
        "batch_size": 64,
        "precision": "bf16",
        "epochs": 3,
        "device": "L4",
        "price_per_hour": 0.8,
    }
    said = subprocess.run(
        [f"{page.bin}/perfpred-predict", "--jsonl"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    by_hand = subprocess.run(
        ["sh", "-c", page.text("#command") + " --json"],
        env={"PATH": f"{page.bin}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(by_hand.stdout) == json.loads(said.stdout)
    hours = json.loads(said.stdout)["total_sec"]["p50"] / 3600
    shown = page.text("#chosen .big >> nth=0")
    assert abs(float(re.match(r"[\d.]+", shown)[0]) - hours) < 0.01 * hours, (
        shown,
        hours,
    )


def check_plan(page):
    page.open()
    page.tab.locator("#plan-card > summary").click()
    page.tab.locator("#queue-add").click()  # the job of the form
    assert (
        page.tab.locator("#queue-rows")
        .input_value()
        .startswith("network,batch_size,precision")
    )
    page.tab.locator("#queue-rows").fill(
        "id,network,batch_size,precision,epochs,value,deadline_sec,earliest_sec\n"
        "night 1,resnet50,64,bf16,1,3,,\nsoon,resnet18,256,bf16,1,2,7200,\nlate,resnet18,64,bf16,1,1,,7200\n"
    )
    page.tab.locator("#queue-budget").fill("4:00:00")
    page.tab.locator("#queue-plan").click()
    expect(page.tab.locator("#gantt")).to_be_visible()
    expect(page.tab.locator("#gantt .run")).to_have_count(3)
    assert "3 of 3 runs, value 6 (no plan is worth more)" in page.text("#plan-said")
    assert "none of this value ends sooner" in page.text("#plan-said")
    assert "samples an epoch 1281167" in page.text("#plan-assumed")
    late = page.tab.locator("#plan-table tr", has_text="late").inner_text()
    assert "2 h" in late or "120 min" in late, late
    sent = page.requests[-1]
    assert sent["devices"] == ["L4", "A100-PCIe-80GB", "H100-SXM5-80GB"], sent
    assert "queue=" in page.link() and "queue_budget=" in page.link()
    page.accessible("plan")
    page.shoot("plan")
    page.tab.reload()  # the link is the question
    expect(page.tab.locator("#gantt .run")).to_have_count(3)
    page.tab.locator("#queue-budget").fill("soon")
    page.tab.locator("#queue-plan").click()
    expect(page.tab.locator("#plan-wrong")).to_contain_text("budget_sec")
    assert page.tab.locator("#queue-budget").input_value() == "soon"
    # A failed request is an error line of the browser's console, too.
    page.errors = [one for one in page.errors if "400" not in one]


def check_types_while_it_is_asked(page):
    """What is typed while answers come stays as it is typed, and the last of it is what is shown."""
    page.open("#network=resnet50&batch_size=64&precision=bf16&device=L4")
    batch = page.tab.get_by_label("batch size", exact=True)
    batch.click()
    batch.fill("")
    for end in range(1, 6):
        page.tab.keyboard.type("12345"[end - 1])
        assert batch.input_value() == "12345"[:end]
    page.settle()
    assert batch.input_value() == "12345" and "batch_size=12345" in page.link()
    assert '"batch_size":12345' in page.text("#json")
    assert page.tab.evaluate("document.activeElement.id") == "field-batch_size"


def check_keyboard(page):
    """From the address to another device's answer, without a mouse."""
    page.open("#network=resnet50&batch_size=64&precision=bf16&device=L4")
    press = page.tab.keyboard.press
    press("Tab")
    assert page.tab.evaluate("document.activeElement.className") == "skip"
    for _ in range(12):
        press("Tab")
        if page.tab.evaluate("document.activeElement.id") == "device":
            break
    page.tab.keyboard.type("H200")
    press("Enter")
    page.settle()
    assert "device=H200" in page.link()
    for _ in range(60):
        press("Tab")
        if page.tab.evaluate("document.activeElement.name") == "chosen":
            break
    press("ArrowDown")
    page.settle()
    assert page.text("#chosen h2") == "H200"
    focus = page.tab.evaluate("document.activeElement.name")
    assert focus == "chosen", f"the focus is lost to {focus}"


def check_answers_at_once(page):
    """A change shows its answer within twice the bare request's time, and some frames of a screen."""
    page.open()
    ratios = []
    for batch in range(100, 130):
        took = page.tab.evaluate(
            """async (batch) => {
              const input = document.getElementById("field-batch_size");
              const changed = new Promise((done) => {
                new MutationObserver((_, watch) => {
                  if (document.querySelector("#json")?.textContent.includes('"batch_size":' + batch)) { watch.disconnect(); done(); }
                }).observe(document.getElementById("views"), { childList: true });
              });
              const begin = performance.now();
              input.value = String(batch);
              input.dispatchEvent(new Event("input"));
              await changed;
              const shown = performance.now() - begin;
              await new Promise((done) => { const look = () => document.querySelector("#answers[aria-busy]") ? setTimeout(look, 5) : done(); look(); });
              const body = JSON.stringify(job_for_test(batch));
              const again = performance.now();
              await (await fetch("v1/predict", { method: "POST", headers: { "Content-Type": "application/json" }, body })).json();
              return [shown, performance.now() - again];
            }""".replace(
                "job_for_test(batch)",
                json.dumps(page.requests[0])
                .replace('"batch_size": 64', '"batch_size": batch')
                .replace('"batch_size":64', '"batch_size": batch'),
            ),
            batch,
        )
        ratios.append(took)
    shown, bare = (sorted(one[i] for one in ratios)[len(ratios) // 2] for i in (0, 1))
    print(
        f"a change is shown after {shown:.1f} ms; the bare request takes {bare:.1f} ms"
    )
    assert shown <= 2 * bare + 34


def check_openapi(page):
    """The document is OpenAPI, and answers are as it says."""
    page.open()
    api = page.tab.evaluate("fetch('v1/openapi.json').then((said) => said.json())")
    validate_document(api)
    answer = {**api["components"]["schemas"]["Answer"], "components": api["components"]}
    job = {"network": "resnet50", "batch_size": 64, "device": "L4"}
    for more in (
        {"id": [1]},
        {"price_per_hour": 1, "quantiles": [0.9]},
        {"network": "gpt2"},
        {"gpus_per_node": 8},
    ):
        said = page.tab.evaluate(
            """(asked) => fetch("v1/predict", { method: "POST", headers: { "Content-Type": "application/json" },
              body: JSON.stringify(asked) }).then((said) => said.json())""",
            {**job, **more},
        )
        validate(said, answer, cls=OAS30Validator)


def run(browser, url, out, program_folder):
    flows = {
        name[6:]: call for name, call in globals().items() if name.startswith("check_")
    }
    for name, flow in flows.items():
        page = Page(browser, url, out, viewport={"width": 1280, "height": 900})
        page.bin = program_folder
        flow(page)
        page.close()
        print(f"{name}: good")
    for name, context in (
        ("dark", {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}}),
        (
            "phone",
            {
                "viewport": {"width": 390, "height": 844},
                "device_scale_factor": 2,
                "has_touch": True,
            },
        ),
        (
            "phone_dark",
            {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
        ),
    ):
        page = Page(browser, url, out, **context)
        page.open(LLAMA)
        page.accessible(name)
        wide = page.tab.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, f"{name}: {wide} pixels too wide"
        page.shoot(name)
        page.close()
        print(f"{name}: good")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bin",
        default=root / "build/release/bin",
        type=pathlib.Path,
        help="folder of the programs",
    )
    parser.add_argument(
        "--out", required=True, type=pathlib.Path, help="folder for the pictures"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=60_000)  # of a machine with other work to do
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium, "no chromium here: scripts/setup.sh --page"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = subprocess.Popen([arguments.bin / "perfpred-serve", "--port", str(port)])
    try:
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox"]
            )
            run(
                browser,
                f"http://127.0.0.1:{port}/",
                arguments.out,
                arguments.bin.resolve(),
            )
            browser.close()
    finally:
        service.terminate()
        assert service.wait(60) == 0


if __name__ == "__main__":
    main()
