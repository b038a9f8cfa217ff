#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts perfpred-serve under load, and says the figures (scripts/full_check.sh service).

  silent    256 silent clients, and readers that take nothing: what others' 99 % quantile becomes
  swap      10,000 requests while the model's file is replaced every 100 ms and another process observes
  memory    the service's memory from a tenth of many distinct requests to all of them
  speed     a whole answer over the socket beside the same call in C
  systemd   the unit and the socket of integrations/systemd, and a start by systemd-socket-activate
  nginx     the example of integrations/nginx, with a password

    scripts/service_check.py --bin build/release/bin --library build/release/lib/libperfpred.so [NAME...]

Fails where a figure breaks its promise. On a machine with other work to do run it as `chrt -f 5 scripts/service_check.py …`. What a machine lacks (nginx, systemd) is said and left out.
"""

import argparse
import contextlib
import ctypes
import http.client
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

root = pathlib.Path(__file__).resolve().parent.parent
JOB = {"network": "resnet50", "batch_size": 64, "device": "L4", "precision": "bf16"}
DEVICES = ("L4", "T4", "A100-80GB-PCIe", "H200", "V100-SXM2-16GB")
DISTINCT_NETWORKS = (
    ("resnet18", False),
    ("vgg11", False),
    ("gpt2", True),
    ("mobilenet_v2", False),
    ("bert_base", True),
    ("resnet50", False),
)


class Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, path, body=None, content_type="application/json"):
        if body is None:
            self.request("GET", path)
        else:
            text = body if isinstance(body, str) else json.dumps(body)
            self.request("POST", path, text, {"Content-Type": content_type})
        response = self.getresponse()
        return response.status, response.read()


@contextlib.contextmanager
def service(arguments, *options):
    """A running service; its process and its socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "socket")
        process = subprocess.Popen(
            [f"{arguments.bin}/perfpred-serve", "--socket", path, *options],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert "listens on" in process.stderr.readline()
        lines = []
        reader = threading.Thread(
            target=lambda: lines.extend(process.stderr), daemon=True
        )
        reader.start()
        try:
            yield process, path
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            reader.join(10)
            if code != 0:
                print("".join(lines), file=sys.stderr)
            assert code == 0, f"the service ended with {code}"


def times_of(path, count):
    """Seconds of single requests on one connection, in order."""
    connection = Connection(path)
    seconds = []
    for i in range(count):
        begin = time.perf_counter()
        status, _ = connection.ask("/v1/predict", {**JOB, "batch_size": 1 + i % 64})
        seconds.append(time.perf_counter() - begin)
        assert status == 200
    return sorted(seconds)


def quantile(seconds, share):
    return seconds[min(len(seconds) - 1, int(share * len(seconds)))]


def check_silent(arguments):
    options = ["--idle-sec", "600", "--request-sec", "600", "--write-sec", "600"]
    with service(arguments, *options) as (_, path):
        times_of(path, 200)
        alone = [quantile(times_of(path, 1000), 0.99) for _ in range(3)]
        held = []
        for i in range(256 + 8):
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(path))
            if i >= 256:  # asks for 6 MB, and reads nothing
                client.sendall(b"GET /v1/devices HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
            elif i % 2:
                client.sendall(b"POST /v1/predict HTTP/1.1\r\nContent-Le")
            held.append(client)
        beside = [quantile(times_of(path, 1000), 0.99) for _ in range(3)]
        for client in held:
            client.close()
    ratio = statistics.median(beside) / statistics.median(alone)
    print(
        f"silent: 99 % of requests within {1e3 * statistics.median(alone):.2f} ms alone, "
        f"{1e3 * statistics.median(beside):.2f} ms beside 256 silent clients and 8 that read nothing: x {ratio:.2f}"
    )
    assert ratio <= 2, "others wait for silent clients"


def check_swap(arguments):
    with tempfile.TemporaryDirectory() as folder:
        model, spare = (
            pathlib.Path(folder, "lab.json"),
            pathlib.Path(folder, "spare.json"),
        )
        stored = root / "tests/data/stored_regressor.json"
        shutil.copy(stored, model)
        done = threading.Event()
        counts = {"swaps": 0, "observed": 0}

        def swap():
            while not done.wait(0.1):
                shutil.copy(stored, spare)
                os.replace(spare, model)
                counts["swaps"] += 1

        with service(arguments, "--model", f"lab={model}") as (_, path):
            rows = json.loads(Connection(path).ask("/v1/models")[1])["models"][0]
            job = {
                "network": "cifar_cnn",
                "depth": 2,
                "base_filters": 16,
                "batch_size": 64,
                "device": rows["devices"][0],
            }
            status, text = Connection(path).ask("/v1/predict", job)
            assert status == 200, text
            answer = json.loads(text)

            def observe():
                """Another process, by the command line, and this service by turns."""
                for i in itertools.count():
                    if done.wait(0.05):
                        return
                    row = f"{answer['key']},2026-01-01T{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}Z,2,{2.02 * answer['time_sec']['p50']},ok\n"
                    table = "key,timestamp_utc,epochs,seconds,outcome\n" + row
                    if i % 2:
                        status, text = Connection(path).ask(
                            "/v1/observe", table, "text/csv"
                        )
                        assert status == 200, text
                    else:
                        runs = pathlib.Path(folder, "runs.csv")
                        runs.write_text(table)
                        subprocess.run(
                            [
                                f"{arguments.bin}/perfpred-observe",
                                "--model",
                                model,
                                "--runs",
                                runs,
                                "--out",
                                model,
                            ],
                            check=True,
                            capture_output=True,
                        )
                    counts["observed"] += 1

            threads = [threading.Thread(target=one) for one in (swap, observe)]
            for thread in threads:
                thread.start()
            connection, wrong, begin = Connection(path), 0, time.time()
            for i in range(arguments.requests):
                batch = 16 + i % 100
                status, text = connection.ask(
                    "/v1/predict",
                    [{**job, "batch_size": batch, "id": k} for k in range(2)],
                )
                said = json.loads(text) if status == 200 else []
                same = len(said) == 2 and {
                    k: v for k, v in said[0].items() if k != "id"
                } == {k: v for k, v in said[1].items() if k != "id"}
                wrong += not (
                    same
                    and said[0]["status"] == 200
                    and said[1]["id"] == 1
                    and f"batch_size={batch};" in said[0]["key"]
                )
            took = time.time() - begin
            done.set()
            for thread in threads:
                thread.join()
            metrics = Connection(path).ask("/metrics")[1].decode()
            reloads = re.search(
                r'reloads_total\{model="lab",result="ok"\} (\d+)', metrics
            )
            failed = re.search(
                r'reloads_total\{model="lab",result="failed"\} (\d+)', metrics
            )
    print(
        f"swap: {arguments.requests} requests in {took:.0f} s, {wrong} lost, wrong or mixed; the file was replaced "
        f"{counts['swaps']} times and observed {counts['observed']} times, and read {reloads[1]} times ({failed[1]} failed)"
    )
    assert wrong == 0 and failed[1] == "0"


def rss(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def distinct_job(i):
    """The i-th of jobs of which no two are equal: networks, devices, precisions, batch sizes, samples an epoch."""
    network, words = DISTINCT_NETWORKS[i % len(DISTINCT_NETWORKS)]
    i //= len(DISTINCT_NETWORKS)
    job = {
        "network": network,
        "train_images": 1000 + i,
        "device": DEVICES[i % 5],
        "batch_size": 1 + i % 31,
    }
    if words:
        job["input"] = 64 * (1 + i % 7)
    return {**job, "precision": ("fp32", "fp16")[i % 2], "fit_advice": 0}


def check_memory(arguments):
    with service(arguments, "--answer-sec", "600") as (process, path):
        connection, sizes = Connection(path), {}
        count, tenth = arguments.distinct, arguments.distinct // 10
        for begin in range(0, count, 100):
            jobs = [distinct_job(i) for i in range(begin, begin + 100)]
            status, text = connection.ask("/v1/predict", jobs)
            if status != 200 or text.count(b'"status":200') != len(jobs):
                sys.exit(
                    next(
                        line
                        for line in text.decode().splitlines()
                        if '"status":200' not in line
                    )
                )
            if (begin + 100) % tenth == 0:
                sizes[begin + 100] = rss(process)
                print(
                    f"memory: {begin + 100} requests, {sizes[begin + 100] / 2**20:.1f} MiB",
                    file=sys.stderr,
                )
    growth = sizes[count] / sizes[tenth] - 1
    print(
        f"memory: {sizes[tenth] / 2**20:.1f} MiB after {tenth} distinct requests, {sizes[count] / 2**20:.1f} after "
        f"{count}: {100 * growth:+.1f} %"
    )
    assert growth <= 0.02


def check_speed(arguments):
    library = ctypes.CDLL(arguments.library)
    model, needed = ctypes.c_void_p(), ctypes.c_size_t()
    assert library.perfpred_model_load(None, None, ctypes.byref(model)) == 0
    buffer = ctypes.create_string_buffer(1 << 16)

    def by_c(text):
        assert (
            library.perfpred_forecast(
                model, text.encode(), buffer, len(buffer), ctypes.byref(needed)
            )
            == 0
        )

    with service(arguments) as (_, path):
        connection = Connection(path)
        ratios = []
        for job in (
            JOB,
            {
                "network": "gpt2",
                "batch_size": 8,
                "device": "A100-80GB-PCIe",
                "precision": "bf16",
            },
        ):
            seconds = {"c": [], "socket": []}
            for i in range(400):
                text = json.dumps({**job, "batch_size": 1 + i % 40})
                for name, call in (
                    ("c", by_c),
                    ("socket", lambda one: connection.ask("/v1/predict", one)),
                ):
                    begin = time.perf_counter()
                    call(text)
                    seconds[name].append(time.perf_counter() - begin)
            # The fastest tenth: what the machine does beside it makes a call wait that goes through two processes.
            c, over = (quantile(sorted(seconds[name]), 0.1) for name in ("c", "socket"))
            ratios.append(over / c)
            print(
                f"speed: {job['network']}, a whole answer in {1e3 * c:.2f} ms in C, {1e3 * over:.2f} ms over the socket: x {over / c:.2f}"
            )
    assert max(ratios) <= 2


def check_systemd(arguments):
    if (
        shutil.which("systemd-analyze") is None
        or shutil.which("systemd-socket-activate") is None
    ):
        print("systemd: not here")
        return
    program = pathlib.Path(arguments.bin, "perfpred-serve").resolve()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("perfpred.service", "perfpred.socket"):
            text = (root / "integrations/systemd" / name).read_text()
            text = text.replace("/usr/bin/perfpred-serve", str(program)).replace(
                "Documentation=man:perfpred-serve(1)\n", ""
            )
            pathlib.Path(folder, name).write_text(text)
        units = sorted(pathlib.Path(folder).iterdir())
        verified = subprocess.run(
            ["systemd-analyze", "verify", *units], capture_output=True, text=True
        )
        ours = [line for line in verified.stderr.splitlines() if "perfpred" in line]
        assert verified.returncode == 0 and not ours, verified.stderr
        judged = subprocess.run(
            [
                "systemd-analyze",
                "security",
                "--offline=true",
                "--threshold=10",
                units[0],
            ],
            capture_output=True,
            text=True,
        )
        level = re.search(r"Overall exposure level.*: ([\d.]+)", judged.stdout)
        assert level and float(level[1]) <= 1, judged.stdout[-500:] + judged.stderr
        path = pathlib.Path(folder, "socket")
        activated = subprocess.Popen(
            ["systemd-socket-activate", "-l", path, program], stderr=subprocess.DEVNULL
        )
        try:
            while not path.exists():
                time.sleep(0.01)
            assert Connection(path).ask("/healthz")[0] == 200
        finally:
            activated.terminate()
            assert activated.wait(60) == 0
    print(
        f"systemd: the units are right, exposure {level[1]} of 10; started by its first client"
    )


def check_nginx(arguments):
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        print("nginx: not here")
        return
    with service(arguments) as (_, path), tempfile.TemporaryDirectory() as folder:
        users = pathlib.Path(folder, "users")
        users.write_text("ada:{PLAIN}secret\n")
        example = (root / "integrations/nginx/perfpred.conf").read_text()
        example = example.replace("/run/perfpred/socket", str(path)).replace(
            "/etc/nginx/perfpred.users", str(users)
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        conf = pathlib.Path(folder, "nginx.conf")
        paths = " ".join(
            f"{kind}_temp_path {folder}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        conf.write_text(
            f"user {os.environ.get('USER', 'root')};"
            * (os.getuid() == 0)
            + f"pid {folder}/pid; daemon off; error_log {folder}/error;\n"
            f"events {{}}\nhttp {{ access_log off; {paths}\nserver {{ listen 127.0.0.1:{port};\n{example}\n}} }}\n"
        )
        process = subprocess.Popen(
            [nginx, "-c", conf, "-p", folder, "-e", f"{folder}/error"]
        )
        try:
            for _ in range(200):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                time.sleep(0.02)
            password = {"Authorization": "Basic YWRhOnNlY3JldA=="}

            def ask(method, target, body=None, headers=password):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request(
                    method,
                    target,
                    body,
                    {"Content-Type": "application/json", **headers},
                )
                response = connection.getresponse()
                return response.status, response.read()

            assert ask("GET", "/perfpred/", headers={})[0] == 401
            status, page = ask("GET", "/perfpred/")
            assert status == 200 and b"<title>perfpred" in page
            assert ask("GET", "/perfpred/v1/models")[0] == 200
            status, answer = ask("POST", "/perfpred/v1/predict", json.dumps(JOB))
            assert status == 200 and "step_sec" in json.loads(answer)
            assert (
                ask("POST", "/perfpred/v1/observe", "{}")[0] == 409
            )  # this machine may teach, and `standard` has no file
            assert ask("POST", "/perfpred/v1/rollback", "{}")[0] == 409
            assert ask("POST", "/perfpred/v1/predict", " " * (17 << 20))[0] == 413
        finally:
            process.terminate()
            process.wait(30)
    print("nginx: the page and /v1 behind a password; a body of 17 MiB is refused")


def main():
    checks = {
        name[6:]: call for name, call in globals().items() if name.startswith("check_")
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bin", default=root / "build/release/bin", help="folder of the programs"
    )
    parser.add_argument("--library", default=root / "build/release/lib/libperfpred.so")
    parser.add_argument("--requests", type=int, default=10_000, help="of swap")
    parser.add_argument(
        "--distinct", type=int, default=1_000_000, help="requests of memory"
    )
    parser.add_argument("names", nargs="*", default=list(checks), metavar="NAME")
    arguments = parser.parse_args()
    for name in arguments.names:
        checks[name](arguments)


if __name__ == "__main__":
    main()
