# SPDX-License-Identifier: Apache-2.0
"""What LibTorch's allocator of this CPU reports to torch.profiler; for other scripts."""
import torch


def measured(step):
    """Bytes that a step holds at its peak beyond what it finds."""
    with torch.profiler.profile(profile_memory=True) as profile:
        step()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak
