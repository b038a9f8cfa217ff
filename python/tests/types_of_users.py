# SPDX-License-Identifier: Apache-2.0
"""What mypy --strict says of programs that use perfpred: a comment `type: ignore` stands where it must find an error."""

from datetime import timedelta
from typing import Any, Optional

from typing_extensions import assert_type

import perfpred


def answers(module: perfpred.Model) -> None:
    job = perfpred.predict(
        "resnet50", device="T4", batch_size=8, input=(3, 224, 224), budget_sec="1:00:00"
    )
    assert_type(job, perfpred.Answer)
    assert_type(job.step_sec.p50, float)
    assert_type(
        perfpred.predict("resnet50", device=["T4", "L4"], batch_size=8),
        perfpred.Answers,
    )
    assert_type(
        perfpred.predict(["resnet18", "resnet50"], device="T4", batch_size=8),
        perfpred.Answers,
    )
    assert_type(
        perfpred.predict("resnet50", device="T4", batch_size=range(8, 64, 8)),
        perfpred.Answers,
    )
    assert_type(
        module.predict(depth=3, base_filters=32, batch_size=64), perfpred.Answer
    )
    assert_type(
        perfpred.predict("resnet50", device="all", batch_size=8, precision="bf16"),
        perfpred.Answers,
    )
    assert_type(perfpred.predict(["a.json", "b.json"], device="T4"), perfpred.Answers)
    perfpred.predict(
        "gpt2",
        device="T4",
        batch_size=8,
        optimizer="AdamW",
        precision="bfloat16",
        checkpoint=True,
        reserved_by_others="1.5GB",
        budget_sec=timedelta(hours=1),
    )
    perfpred.predict("gpt2", device="T4", precision=["bf16", "fp32"], batch_size=8)
    perfpred.predict("gpt2", device="T4", precision="bf61")  # type: ignore[arg-type]
    perfpred.predict("gpt2", device="T4", weights=["nf4", "nf5"])  # type: ignore[list-item]
    perfpred.predict("resnet50", device="T4", batchsize=3)  # type: ignore[call-overload]
    perfpred.predict("resnet50", device="T4", batch_size="many")  # type: ignore[arg-type]
    module.predict_many({"batch_size": [8, 16]}, colour="red")  # type: ignore[call-overload]
    perfpred.predicted("resnet50")  # type: ignore[attr-defined]


def steps() -> None:
    found = perfpred.inspect("resnet50", batch_size=8, optimizer="adamw")
    assert_type(found, perfpred.Inspection)
    assert_type(found.layers["layer1"], perfpred.Layer)
    assert_type(perfpred.networks("llama"), list[dict[str, Any]])
    perfpred.inspect("resnet50", batchsize=8)  # type: ignore[call-arg]


def models() -> None:
    perfpred.fit([{"depth": 3}], kind="linear")
    perfpred.fit("runs_agg.csv", kind="banana")  # type: ignore[arg-type]
    perfpred.aggregate(["a.csv", "b.csv"], label="mean")
    perfpred.aggregate("runs.csv", label="banana")  # type: ignore[arg-type]
    perfpred.plan(
        "runs_agg.csv",
        budget_sec="12:00:00",
        epochs=50,
        objective="best",
        price_per_hour=1.5,
    )
    perfpred.plan("runs_agg.csv", budget_sec=1, epochs=50, colour="red")  # type: ignore[call-arg]


def own_step() -> None:
    with perfpred.measure(
        "runs.csv", network="mine", optimizer="lion", train_images=1000
    ) as m:
        assert_type(m.step(), bool)
    assert_type(m.row, Optional[dict[str, Any]])
    perfpred.measure("runs.csv", batchsize=3)  # type: ignore[call-arg]
    with perfpred.capture("step.json", batch_size=3):
        pass
    perfpred.capture("step.json", steps=3)  # type: ignore[call-arg]
    assert_type(perfpred.combine("a.json", "b.json", "c.json"), dict[str, Any])
