# After trl's "SFT Trainer": all parameters, packed sequences.
import tempfile

from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from loops_common import llama, sentences, tokenizer

trainer = SFTTrainer(
    model=llama(),
    args=SFTConfig(
        output_dir=tempfile.mkdtemp(), max_length=128, per_device_train_batch_size=2, gradient_accumulation_steps=2,
        gradient_checkpointing=True, bf16=True, max_steps=2, report_to="none", save_strategy="no",
    ),
    train_dataset=Dataset.from_dict({"text": sentences()}),
    processing_class=tokenizer(),
)
trainer.train()
