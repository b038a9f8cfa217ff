# SPDX-License-Identifier: Apache-2.0
"""What disturbs measurements on a device: the rules of docs/guides/measuring.md, as src/torch/monitor has them. Everything is
read, nothing is set; what the system does not tell is None.
"""

import collections
import ctypes
import glob
import multiprocessing
import os
import resource
import time
from typing import Optional

import torch

_LOST_PROCESSORS = 0.1
_THROTTLED_SHARE = 0.05
# The kernel samples who is busy a hundred times a second: over a tenth of a second that is off by a fifth of a core.
_BUSY_SEC = 1.0
_BUSY_PROCESSORS = 0.25


def first_line(path):
    try:
        with open(path) as file:
            return file.readline().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _number(text):
    try:
        return float(text.split()[0])
    except (AttributeError, IndexError, ValueError):
        return None


def value_of(path, name):
    """The value of the first line "name : value" of a file of /proc."""
    try:
        with open(path, errors="replace") as file:
            for line in file:
                key, colon, value = line.partition(":")
                if colon and key.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return None


def usable_processors():
    return max(1, len(os.sched_getaffinity(0)))


def cpu_clock_mhz():
    khz = _number(first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"))
    return _number(value_of("/proc/cpuinfo", "cpu MHz")) if khz is None else khz / 1000


def _own_processes():
    """This one, and the workers of its loaders."""
    return ["self"] + [str(child.pid) for child in multiprocessing.active_children()]


def _threads_of(processes):
    """{file: (seconds run, seconds in the queue)}"""
    threads = {}
    for process in processes:
        for file in glob.glob(f"/proc/{process}/task/*/schedstat"):
            try:
                ran, waited = (first_line(file) or "").split()[:2]
            except ValueError:
                continue  # the thread has ended
            threads[file] = (float(ran) * 1e-9, float(waited) * 1e-9)
    return threads


def _meanwhile(before, now):
    """(seconds run, seconds in the queue) of all threads."""
    ran = waited = 0.0
    for name, (ran_sec, waited_sec) in now.items():
        ran_before, waited_before = before.get(name, (0.0, 0.0))
        ran += max(0.0, ran_sec - ran_before)
        waited += max(0.0, waited_sec - waited_before)
    return ran, waited


def _cgroup_files():
    """cpu.stat of the process's group and of those above it: a quota may be set at any level."""
    files: list[str] = []
    try:
        with open("/proc/self/cgroup") as groups:
            lines = groups.read().splitlines()
    except OSError:
        return files
    for line in lines:  # "0::/path" or, of version 1, "3:cpu,cpuacct:/path"
        _, controllers, group = (line.split(":", 2) + ["", ""])[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        while True:
            file = (
                "/sys/fs/cgroup"
                + ("/cpu" if controllers else "")
                + group.rstrip("/")
                + "/cpu.stat"
            )
            if os.path.exists(file):
                files.append(file)
            if group in ("", "/"):
                break
            group = os.path.dirname(group)
    return files


def _throttled_sec(path):
    """Seconds for which the quota stopped the group."""
    try:
        with open(path) as file:
            values = dict(line.split()[:2] for line in file if line.strip())
    except (OSError, ValueError):
        return 0.0
    if "throttled_usec" in values:
        return float(values["throttled_usec"]) * 1e-6
    return float(values.get("throttled_time", 0)) * 1e-9  # of cgroups, version 1


class _Waits:
    """What kept the threads of this program from computing, as the kernel counts it."""

    def __init__(self, companions):
        self._companions = companions
        self._cgroups = _cgroup_files()
        self._heat = glob.glob(
            "/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count"
        )
        self._last, self._time = self._counters(), time.monotonic()
        self.known = bool(
            self._last[0]
        )  # does the kernel count the time in the queue (CONFIG_SCHED_INFO)?

    def _counters(self):
        heat = sum(_number(first_line(file)) or 0 for file in self._heat)
        throttled = sum(_throttled_sec(file) for file in self._cgroups)
        return (
            _threads_of(_own_processes()),
            throttled,
            heat,
            _threads_of(self._companions),
        )

    def read(self):
        """(processors that others used while our threads were ready, whether heat or a quota slowed us down)"""
        counters, now = self._counters(), time.monotonic()
        threads, throttled, heat, companions = counters
        before, throttled_before, heat_before, companions_before = self._last
        sec = now - self._time
        self._last, self._time = counters, now
        if sec <= 0:
            return 0.0, heat > heat_before
        ran, waited = _meanwhile(before, threads)
        ran += _meanwhile(companions_before, companions)[0]
        # Where these threads used all processors, they waited for each other.
        lost = min(waited, max(0.0, usable_processors() * sec - ran)) / sec
        return lost, heat > heat_before or (
            throttled - throttled_before
        ) / sec > _THROTTLED_SHARE


def _busy_seconds():
    """Processor seconds since boot: of all processes, and of this program."""
    ticks = os.sysconf("SC_CLK_TCK")
    line = first_line(
        "/proc/stat"
    )  # "cpu  user nice system idle iowait irq softirq steal ..."
    if line is None or ticks <= 0:
        return None
    fields = [float(x) for x in line.split()[1:9]]
    own = resource.getrusage(resource.RUSAGE_SELF)
    own_sec = own.ru_utime + own.ru_stime
    for process in _own_processes()[1:]:
        stat = first_line(f"/proc/{process}/stat") or ""
        times = stat.rpartition(")")[2].split()[11:13]
        own_sec += sum(float(x) for x in times) / ticks
    return sum(x for i, x in enumerate(fields) if i not in (3, 4)) / ticks, own_sec


class _Nvml:
    """The driver's management library, where it is there."""

    _SLOWDOWNS = (
        0x08 | 0x20 | 0x40 | 0x80
    )  # by hardware, heat (software, hardware), power brake: nvmlClocksEventReasons
    _SM_CLOCK, _INSUFFICIENT_SIZE = 1, 7

    def __init__(self):
        try:
            self._library: Optional[ctypes.CDLL] = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            self._library = None
        if self._library is not None and self._call("nvmlInit_v2") != 0:
            self._library = None

    def _call(self, name, *arguments):
        function = (
            getattr(self._library, name, None) if self._library is not None else None
        )
        return -1 if function is None else function(*arguments)

    def driver(self):
        text = ctypes.create_string_buffer(96)
        known = (
            self._call("nvmlSystemGetDriverVersion", text, ctypes.c_uint(len(text)))
            == 0
        )
        return text.value.decode() if known else None

    def device(self, pci_bus_id):
        handle = ctypes.c_void_p()
        found = (
            self._call(
                "nvmlDeviceGetHandleByPciBusId_v2",
                pci_bus_id.encode(),
                ctypes.byref(handle),
            )
            == 0
        )
        return handle if found else None

    def clock_mhz(self, device):
        mhz = ctypes.c_uint()
        known = (
            device is not None
            and self._call(
                "nvmlDeviceGetClockInfo", device, self._SM_CLOCK, ctypes.byref(mhz)
            )
            == 0
        )
        return float(mhz.value) if known else None

    def throttled(self, device):
        reasons = ctypes.c_ulonglong()
        for name in (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        ):
            if (
                device is not None
                and self._call(name, device, ctypes.byref(reasons)) == 0
            ):
                return bool(reasons.value & self._SLOWDOWNS)
        return None

    def processes(self, device):
        count = ctypes.c_uint(0)
        if device is None:
            return None
        answer = self._call(
            "nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), None
        )
        return count.value if answer in (0, self._INSUFFICIENT_SIZE) else None


def pci_bus_id(device):
    """As NVML names a GPU, or None where this PyTorch does not tell."""
    known = torch.cuda.get_device_properties(device)
    if not hasattr(known, "pci_bus_id"):
        return None
    return (
        f"{known.pci_domain_id:08x}:{known.pci_bus_id:02x}:{known.pci_device_id:02x}.0"
    )


class Reading(
    collections.namedtuple("Reading", "clock_mhz throttled company disturbed")
):
    """throttled: slowed down, a GPU by heat or a power brake, now; a CPU meanwhile, by heat or the quota of a cgroup.
    company: others hindered what is measured. disturbed: throttled; or, on a CPU, in company.
    """


class Monitor:
    """Watches a device. companions: numbers of processes that are measured together with this one."""

    def __init__(self, device, companions=()):
        self._device = device
        self.awaits_company = False  # a later reading will tell whether there is company, for all the time since the first
        if device.type == "cuda":
            self._nvml, bus = _Nvml(), pci_bus_id(device)
            self._gpu = None if bus is None else self._nvml.device(bus)
        else:
            self._waits = _Waits(companions)
            self._uses: collections.deque[tuple[float, float, float]] = (
                collections.deque()
            )  # (time, busy, own) of the last second, the oldest first

    def driver(self):
        """Of a GPU."""
        return self._nvml.driver()

    def read(self):
        if self._device.type == "cuda":
            throttled = bool(self._nvml.throttled(self._gpu))
            # A container may hide all processes, this one included.
            company = (self._nvml.processes(self._gpu) or 0) > 1
            return Reading(
                self._nvml.clock_mhz(self._gpu), throttled, company, throttled
            )
        if self._waits.known:
            lost, throttled = self._waits.read()
            company = lost > _LOST_PROCESSORS
        else:
            throttled, company = False, self._processors_are_busy()
        return Reading(cpu_clock_mhz(), throttled, company, throttled or company)

    def _processors_are_busy(self):
        """By all processes together; False until a second has been seen."""
        use = _busy_seconds()
        self.awaits_company = False
        if use is None:
            return False
        now = time.monotonic()
        self._uses.append((now, *use))
        while len(self._uses) > 1 and now - self._uses[1][0] >= _BUSY_SEC:
            self._uses.popleft()
        then, busy, own = self._uses[0]
        if now - then < _BUSY_SEC:
            self.awaits_company = True
            return False
        others = (use[0] - busy - (use[1] - own)) / (now - then)
        return (
            others
            > max(0, usable_processors() - torch.get_num_threads()) + _BUSY_PROCESSORS
        )
