# After trl's "DPO Trainer".
import tempfile

from datasets import Dataset
from trl import DPOConfig, DPOTrainer

from loops_common import llama, sentences, tokenizer

texts = sentences(48, 24)
data = Dataset.from_dict({"prompt": texts[:16], "chosen": texts[16:32], "rejected": texts[32:]})
trainer = DPOTrainer(
    model=llama(),
    ref_model=llama(),
    args=DPOConfig(
        output_dir=tempfile.mkdtemp(), max_length=64, per_device_train_batch_size=4, bf16=True, max_steps=2,
        report_to="none", save_strategy="no",
    ),
    train_dataset=data,
    processing_class=tokenizer(),
)
trainer.train()
