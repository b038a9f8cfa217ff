# After transformers' "Trainer" page: bf16, gradient checkpointing, accumulation. (also for transformers 4)
import tempfile

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from loops_common import Tokens

model = GPT2LMHeadModel(GPT2Config(n_embd=256, n_layer=4, n_head=8, vocab_size=1000))
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    gradient_checkpointing=True,
    bf16=True,
    max_steps=3,
    logging_steps=1,
    report_to="none",
    save_strategy="no",
)
Trainer(model=model, args=arguments, train_dataset=Tokens()).train()
