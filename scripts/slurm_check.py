#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perfpred on a throw-away cluster of Slurm on this machine: slurmdbd with MariaDB on a socket, slurmctld with the plugin of
integrations/slurm, and two nodes, each in a namespace of its own, so that one can be lost.

    scripts/slurm_check.py --bin build/release/bin      (as root; scripts/setup.sh --slurm installs what it needs)

A sweep of 40 tasks of which one node is killed and two are requeued; forecasts and limits of jobs; what a stale table, a
stopped service, a `disable` file and damaged comments do; a report of sacct's history beside a count of its own; runs that
come back. Prints a line for each, and ends with 1 at the first that is not as it must be.
"""

import argparse
import contextlib
import csv
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
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
NODES = ("n1", "n2")
CPUS = 3  # of a node: tasks that it runs at the same time
STALE_SEC = 15

SLURM_CONF = """
ClusterName=check
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=30
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmctldDebug=debug
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePass={folder}/munge/socket
AccountingStoragePort={ports[1]}
JobSubmitPlugins=lua
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=5,bf_interval=5
SlurmdParameters=config_overrides
SlurmdTimeout=20
ReturnToService=2
MpiDefault=none
KillWait=5
MinJobAge=3600
{nodes}
PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=n1,n2 MaxTime=1 State=UP
"""

SLURMDBD_CONF = """
DbdHost=localhost
DbdPort={port}
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
"""

PLUGIN = """
perfpred = {{ table = "{folder}/run/table", disable = "{folder}/run/disable", stale_sec = {stale} }}
dofile("{plugin}")
return slurm.SUCCESS
"""


def fail(text):
    raise SystemExit(f"slurm_check: {text}")


def check(is_so, text):
    if not is_so:
        fail(text)
    print(text, flush=True)


def await_(what, is_so, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := is_so():
            return found
        time.sleep(0.3)
    fail(f"{what}: not within {seconds} s")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Everything below one folder; stop() ends every process that it started."""

    def __init__(self, programs, folder):
        self.folder, self.programs = folder, programs
        self.processes = {}
        self.environment = {
            **os.environ,
            "SLURM_CONF": f"{folder}/etc/slurm.conf",
            "MYSQL_UNIX_PORT": f"{folder}/mysql/socket",
            "PATH": f"{programs}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }

    def start(self, name, *command):
        log = open(f"{self.folder}/{name}.out", "ab")
        self.processes[name] = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self.environment,
            cwd=self.folder,
        )
        log.close()

    def stop(self, name, with_signal=signal.SIGTERM):
        process = self.processes.pop(name)
        process.send_signal(with_signal)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self):
        for name in reversed(list(self.processes)):
            self.stop(name)

    def run(self, *command, **options):
        options = {"check": True, "cwd": self.folder, **options}
        return subprocess.run(
            [str(word) for word in command],
            env=self.environment,
            capture_output=True,
            text=True,
            **options,
        )

    def out(self, *command):
        return self.run(*command).stdout

    def succeeds(self, *command):
        return self.run(*command, check=False).returncode == 0

    def folder_for(self, name, user, mode=0o755):
        path = f"{self.folder}/{name}"
        os.makedirs(path, exist_ok=True)
        shutil.chown(path, user)
        os.chmod(path, mode)
        return path

    def write(self, name, text, user="slurm", mode=0o644):
        path = f"{self.folder}/{name}"
        with open(path, "w") as file:
            file.write(text)
        shutil.chown(path, user)
        os.chmod(path, mode)

    def start_munge(self):
        munge = self.folder_for("munge", "munge")
        with open(f"{munge}/key", "wb") as key:
            key.write(os.urandom(1024))
        shutil.chown(f"{munge}/key", "munge")
        os.chmod(f"{munge}/key", 0o600)
        self.start(
            "munged",
            *("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups"),
            *("munged", "-F", "--force", f"--key-file={munge}/key"),
            *(f"--socket={munge}/socket", f"--pid-file={munge}/pid"),
            *(f"--log-file={munge}/log", f"--seed-file={munge}/seed"),
        )
        await_("munged", lambda: self.succeeds("munge", "-n", "-S", f"{munge}/socket"))

    def start_database(self):
        data = self.folder_for("mysql", "mysql")
        self.run(
            *("mariadb-install-db", "--no-defaults", "--user=mysql"),
            *(f"--datadir={data}/data", "--auth-root-authentication-method=normal"),
            *("--skip-test-db",),
        )
        self.start(
            "mariadbd",
            *("mariadbd", "--no-defaults", "--user=mysql", f"--datadir={data}/data"),
            *(f"--socket={data}/socket", "--skip-networking", f"--pid-file={data}/pid"),
            *("--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0"),
        )
        sql = (
            "CREATE USER slurm@localhost; CREATE DATABASE slurm_acct_db;"
            "GRANT ALL ON slurm_acct_db.* TO slurm@localhost;"
        )
        socket_option = f"--socket={data}/socket"
        await_(
            "mariadbd",
            lambda: self.succeeds("mariadb", socket_option, "-e", "SELECT 1"),
        )
        self.run("mariadb", socket_option, "-e", sql)

    def start_slurm(self):
        ports = free_ports(4)
        host = socket.gethostname().split(".")[0]
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} RealMemory=2000"
            for name, port in zip(NODES, ports[2:])
        )
        self.folder_for("etc", "slurm")
        self.folder_for("state", "slurm")
        where = {"folder": self.folder, "host": host, "ports": ports, "nodes": nodes}
        self.write("etc/slurm.conf", SLURM_CONF.format(**where))
        dbd = SLURMDBD_CONF.format(folder=self.folder, port=ports[1])
        self.write("etc/slurmdbd.conf", dbd, mode=0o600)
        plugin = REPOSITORY / "integrations/slurm/job_submit.lua"
        text = PLUGIN.format(folder=self.folder, plugin=plugin, stale=STALE_SEC)
        self.write("etc/job_submit.lua", text)
        os.makedirs(f"{self.folder}/run")
        shutil.chown(f"{self.folder}/run", "root", "slurm")
        os.chmod(
            f"{self.folder}/run", 0o2750
        )  # as integrations/slurm/perfpred-slurm.conf
        os.chmod(self.folder, 0o777)  # logs of daemons of three users
        self.start("slurmdbd", "slurmdbd", "-D")
        await_(
            "slurmdbd",
            lambda: self.succeeds("sacctmgr", "-i", "add", "cluster", "check"),
        )
        self.start("slurmctld", "slurmctld", "-D", "-c")
        for node in NODES:
            self.start_node(node)
        await_(
            "two nodes",
            lambda: (
                self.out("sinfo", "-h", "-N", "-p", "gpu", "-t", "idle").count("n") >= 2
            ),
        )

    def start_node(self, node):
        self.folder_for(node, "root")
        # A namespace of processes: its first process is the node, and nothing of it outlives that.
        self.start(
            node,
            *("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"),
            *("slurmd", "-D", "-N", node),
        )

    def serve(self, *options):
        begin = time.time()
        self.start(
            "serve",
            *(
                f"{self.programs}/perfpred-serve",
                "--socket",
                f"{self.folder}/serve.socket",
            ),
            *("--slurm-table", f"{self.folder}/run/table", "--slurm-device", "gpu=L4"),
            *options,
        )
        table = f"{self.folder}/run/table"
        await_(
            "a table",
            lambda: (
                os.path.exists(table)
                and os.path.getmtime(table) >= begin
                and os.path.getsize(table)
            ),
        )

    def log(self):
        with open(f"{self.folder}/slurmctld.log", errors="replace") as file:
            return file.read()

    def job(self, number):
        """What scontrol says of a job, by field."""
        text = self.out("scontrol", "-o", "show", "job", number)
        fields = dict(word.split("=", 1) for word in text.split() if "=" in word)
        comment = re.search(r"AdminComment=(.*?)(?: [A-Z]\w*=|$)", text.strip())
        fields["AdminComment"] = comment.group(1) if comment else ""
        return fields

    def submit(self, *options, hold=True):
        """Number of a job, what sbatch said, and its seconds."""
        begin = time.monotonic()
        done = self.run(
            *(
                "sbatch",
                "--parsable",
                "--output=/dev/null",
                *(["--hold"] if hold else []),
            ),
            *options,
            check=False,
            input="#!/bin/sh\nsleep 3\n",
        )
        seconds = time.monotonic() - begin
        if done.returncode != 0:
            fail(f"a job was rejected: {options}: {done.stderr}")
        return done.stdout.split(";")[0].strip(), done.stderr, seconds


def sweep_check(cluster):
    """40 tasks; a node is lost and comes back, two tasks are requeued."""
    work = cluster.folder_for("sweep", "root")
    command = [
        *("perfpred-collect", "--device", "cpu", "--threads", "1", "--epochs", "2"),
        *("--train-images", "1000", "--depth", "1,2", "--base-filters", "4,8,12,16,20"),
        *("--batch-size", "40,60,80,100", "--env", "a check", "--sbatch"),
    ]
    script = cluster.run(*command, cwd=work).stdout
    print(script, end="")
    with open(f"{work}/sweep.sh", "w") as file:
        file.write(script)
    said = cluster.run("sh", "sweep.sh", "--partition=gpu", cwd=work).stdout
    array, table = re.fullmatch(r"tasks (\d+), table (\d+)\n", said).groups()

    def states():
        text = cluster.out("squeue", "-h", "-r", "-j", array, "-o", "%K %t %N %A")
        return [line.split() for line in text.splitlines()]

    def rows_of(shard):
        path = f"{work}/runs.{shard}-of-40.csv"
        if not os.path.exists(path):
            return []
        with open(path, newline="") as file:
            return list(csv.DictReader(file))

    def count():
        return sum(len(rows_of(shard)) for shard in range(40))

    def amid(node, wanted):
        """Tasks on the node that measure: they have no row yet. A disturbed row would be measured again."""
        tasks = [one[0] for one in states() if one[1] == "R" and one[-2] == node]
        busy = [shard for shard in tasks if not rows_of(shard)]
        return busy if len(busy) == len(tasks) >= wanted else []

    await_("rows of the first tasks", lambda: count() >= 4, 900)
    lost = await_("tasks on n2", lambda: amid("n2", 2), 600)
    cluster.stop("n2", signal.SIGKILL)
    check(True, f"node n2 is killed with tasks {lost} on it, {count()} rows are there")
    requeued = await_("tasks on n1", lambda: amid("n1", 2), 600)[:2]
    for shard in requeued:
        cluster.run("scontrol", "requeue", f"{array}_{shard}")
    check(True, f"tasks {requeued} are requeued")
    await_(
        "the loss of n2",
        lambda: "down" in cluster.out("sinfo", "-h", "-n", "n2", "-o", "%T"),
        120,
    )
    cluster.start_node("n2")
    await_("the end of the sweep", lambda: not states(), 1800)
    await_("the table", lambda: os.path.exists(f"{work}/runs_agg.csv"), 120)
    found = [
        (row["depth"], row["base_filters"], row["batch_size"])
        for shard in range(40)
        for row in rows_of(shard)
    ]
    check(
        len(found) == len(set(found)) == 40,
        f"{len(found)} rows of {len(set(found))} configurations, of 40 in the sweep",
    )
    with open(f"{work}/runs_agg.csv", newline="") as file:
        check(
            len(list(csv.DictReader(file))) == 40, "the table of all shards has 40 rows"
        )
    restarts = cluster.out(
        "sacct", "-n", "-X", "-D", "-P", "-j", array, "--format=JobID,State"
    )
    again = [
        line for line in restarts.splitlines() if re.search("REQUEUED|NODE_FAIL", line)
    ]
    check(len(again) >= 3, f"{len(again)} tasks were begun again: {again}")


REQUESTS = [
    f"network=resnet18;batch_size={batch};epochs={epochs};train_images=2000;startup_sec=1"
    for batch in (8, 16, 32, 64, 128)
    for epochs in (1, 2, 3, 4)
]
DAMAGED = [
    *(
        "perfpred:",
        "perfpred:network",
        "perfpred:=1",
        "perfpred:network=resnet51;epochs=1",
    ),
    *(
        "perfpred:" + "x" * 900,
        "perfpred:network=resnet50;batch_size=-1;epochs=1",
        "perfpred:%s%n;a=b",
        "perfpred:ä=ö",
    ),
    *(
        "perfpred:config=/etc/shadow;epochs=1",
        "perfpred:network=resnet18;network=resnet18",
        "not for perfpred",
    ),
]


def forecast_check(cluster):
    comment = "--comment=perfpred:" + REQUESTS[0]
    first, _, _ = cluster.submit(comment)
    check(
        cluster.job(first)["AdminComment"] == "",
        "the first job of a comment passes as it came",
    )

    def known(request):
        with open(f"{cluster.folder}/run/table") as file:
            return f"gpu {request}\tok\t" in file.read()

    await_("an answer", lambda: known(REQUESTS[0]))
    second, _, _ = cluster.submit(comment)
    job = cluster.job(second)
    check(
        job["AdminComment"].startswith("perfpred:p05_sec="),
        f"the second one has its forecast: {job['AdminComment']}",
    )
    check(job["TimeLimit"] == "UNLIMITED", "observing sets no limit")
    cluster.run(
        "sbatch",
        "--test-only",
        "--comment=perfpred:" + REQUESTS[1],
        input="#!/bin/sh\n",
    )
    await_("an answer for --test-only", lambda: known(REQUESTS[1]))
    check(True, "sbatch --test-only makes a comment known, and submits nothing")
    for request in REQUESTS:
        cluster.submit("--comment=perfpred:" + request)
    await_("answers to all", lambda: all(map(known, REQUESTS)))
    _, said, _ = cluster.submit(
        "--comment=perfpred:network=gpt2_xl;batch_size=64;max_steps=10000"
    )
    await_(
        "an answer to gpt2_xl",
        lambda: known("network=gpt2_xl;batch_size=64;max_steps=10000"),
    )
    _, said, _ = cluster.submit(
        "--time=1", "--comment=perfpred:network=gpt2_xl;batch_size=64;max_steps=10000"
    )
    check("more memory than its device has" in said, f"told: {said.strip()}")
    check("is shorter than 19 of 20" in said, "and that its limit is too short")


def history_check(cluster):
    """Jobs that end, their history, the report, and the runs that the model learns."""
    for i in range(20):
        options = ["--time=2"] if i % 2 else []
        cluster.submit(*options, "--comment=perfpred:" + REQUESTS[i], hold=False)
    cluster.run(
        "sbatch", "--wait", "--parsable", "--output=/dev/null", "--wrap", "true"
    )
    time.sleep(10)  # slurmdbd writes
    columns = "JobIDRaw,State,ElapsedRaw,TimelimitRaw,End,AdminComment"
    history = cluster.out("sacct", "-P", "-a", "-S", "now-1days", f"--format={columns}")
    cluster.write("history.txt", history)
    report = json.loads(
        cluster.out(
            f"{cluster.programs}/perfpred-slurm-report",
            "--sacct",
            "history.txt",
            "--json",
        )
    )
    completed = inside = killed = 0
    for line in history.splitlines()[1:]:
        number, state, elapsed, _, _, comment = line.split("|")
        if "." in number or state != "COMPLETED" or not comment.startswith("perfpred:"):
            continue
        fields = dict(
            part.split("=", 1)
            for part in comment[len("perfpred:") :].split(";key=")[0].split(";")
        )
        completed += 1
        inside += float(fields["p05_sec"]) <= int(elapsed) <= float(fields["p95_sec"])
        killed += int(elapsed) > 60 * int(fields["limit_min"])
    found = (report["completed"], report["inside"], len(report["killed"]))
    check(
        completed >= 20 and found == (completed, inside, killed),
        f"the report counts as this script: {found}",
    )
    print(
        cluster.out(
            f"{cluster.programs}/perfpred-slurm-report", "--sacct", "history.txt"
        ),
        end="",
    )
    cluster.run(
        f"{cluster.programs}/perfpred-slurm-report",
        *("--sacct", "history.txt", "--runs-out", f"{cluster.folder}/spool/sacct.csv"),
    )
    await_("the runs in the model", lambda: os.listdir(f"{cluster.folder}/spool/done"))
    with open(f"{cluster.folder}/serve.out") as file:
        check(True, [line for line in file if "spool: sacct.csv" in line][-1].strip())


def enforcement_check(cluster):
    comment = "--comment=perfpred:" + REQUESTS[0]
    told, said, _ = cluster.submit(comment)
    limit = re.search(r"the time limit is (\d+) min", said)
    check(limit is not None, f"told: {said.strip()}")
    shown = cluster.job(told)["TimeLimit"]
    check(
        shown == f"00:{int(limit.group(1)):02}:00",
        f"a job without a limit gets one: {shown}",
    )
    own, _, _ = cluster.submit(comment, "--time=77")
    check(cluster.job(own)["TimeLimit"] == "01:17:00", "one with a limit keeps it")


def passing_check(cluster):
    """Jobs pass untouched whatever happens, and soon."""
    slowest = 0
    for i in range(200):
        comment = (
            DAMAGED[i % len(DAMAGED)]
            if i % 2
            else "perfpred:" + REQUESTS[i % len(REQUESTS)]
        )
        _, _, seconds = cluster.submit("--comment=" + comment)
        slowest = max(slowest, seconds)
    check(
        True,
        f"200 jobs, half of them with damaged comments: none rejected, the slowest sbatch took {slowest:.3f} s",
    )

    def passes(reason):
        job, _, seconds = cluster.submit("--comment=perfpred:" + REQUESTS[0])
        fields = cluster.job(job)
        check(
            fields["AdminComment"] == "" and fields["TimeLimit"] == "UNLIMITED",
            f"{reason}: the job passes as it came, sbatch took {seconds:.3f} s",
        )
        check(
            f"perfpred: {reason}: the job passes as it came" in cluster.log(),
            f"{reason} is in slurmctld's log",
        )

    disable = pathlib.Path(cluster.folder, "run/disable")
    disable.touch()
    passes("disabled")
    disable.unlink()
    table = pathlib.Path(cluster.folder, "run/table")
    cluster.stop("serve")
    whole = table.read_bytes()
    table.write_bytes(whole[: len(whole) // 2])
    passes("damaged")
    table.write_bytes(whole)
    time.sleep(STALE_SEC + 2)
    passes("stale")
    table.unlink()
    passes("no_table")


def time_check(cluster):
    times = [
        float(ms) for ms in re.findall(r"perfpred: took ([\d.]+) ms", cluster.log())
    ]
    median, high = statistics.median(times), statistics.quantiles(times, n=100)[-1]
    check(
        median <= 1,
        f"Lua's time in slurmctld: median {median:.3f} ms, 99 % {high:.3f} ms of {len(times)} jobs",
    )


def fill_table(cluster):
    """As many requests as the table holds."""
    with open(f"{cluster.folder}/run/table.requests", "a") as file:
        for i in range(4000):
            file.write(
                f"gpu network=resnet18;batch_size=8;epochs={i + 10};train_images=2000;startup_sec=1\n"
            )

    def full():
        with open(f"{cluster.folder}/run/table") as table:
            rows = int(re.search(r"rows=(\d+)", table.readline()).group(1))
        return rows if rows >= 4000 else 0

    check(True, f"the table has {await_('a full table', full, 300)} rows")


def jobs_check(cluster, model):
    service = ["--model", f"lab={model}", "--spool", f"{cluster.folder}/spool"]
    cluster.serve(*service)
    forecast_check(cluster)
    history_check(cluster)
    cluster.stop("serve")
    cluster.serve(*service, "--slurm-mode", "enforce", "--slurm-startup-sec", "30")
    enforcement_check(cluster)
    fill_table(cluster)
    passing_check(cluster)
    time_check(cluster)
    cluster.run("scancel", "--state=PENDING", "--user=root")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--keep", action="store_true", help="the folder with all logs")
    parser.add_argument("--part", choices=("all", "jobs", "sweep"), default="all")
    options = parser.parse_args()
    if os.geteuid() != 0:
        fail("a cluster is started as root")
    folder = tempfile.mkdtemp(prefix="perfpred-slurm-")
    os.chmod(folder, 0o755)
    cluster = Cluster(os.path.abspath(options.bin), folder)
    model = f"{folder}/lab.json"
    good = False
    try:
        cluster.start_munge()
        cluster.start_database()
        cluster.start_slurm()
        check(True, f"a cluster of two nodes is in {folder}")
        shutil.copy(REPOSITORY / "data/standard_ops.json", model)
        if options.part != "sweep":
            jobs_check(cluster, model)
        if options.part != "jobs":
            sweep_check(cluster)
        good = True
    finally:
        with contextlib.suppress(Exception):
            cluster.run("scancel", "--user=root", check=False)
        cluster.stop_all()
        if good and not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"slurm_check: logs are in {folder}", file=sys.stderr)


if __name__ == "__main__":
    main()
