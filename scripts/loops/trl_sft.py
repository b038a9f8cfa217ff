# After trl's "SFT Trainer": supervised fine-tuning with LoRA.
import tempfile

from datasets import Dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

from loops_common import llama, sentences, tokenizer

trainer = SFTTrainer(
    model=llama(),
    args=SFTConfig(
        output_dir=tempfile.mkdtemp(), max_length=64, per_device_train_batch_size=4, bf16=True, max_steps=2,
        report_to="none", save_strategy="no", dataset_num_proc=None,
    ),
    train_dataset=Dataset.from_dict({"text": sentences()}),
    processing_class=tokenizer(),
    peft_config=LoraConfig(r=8, task_type="CAUSAL_LM"),
)
trainer.train()
