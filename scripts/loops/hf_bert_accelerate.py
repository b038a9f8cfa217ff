# After accelerate's "Quicktour", sequence classification with padding and accumulation. (also for transformers 4)
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification

from loops_common import sentences, tokenizer

accelerator = Accelerator(gradient_accumulation_steps=2, mixed_precision="fp16")
words = tokenizer()
data = words(sentences(), padding="max_length", max_length=96, truncation=True, return_tensors="pt")
data = [
    {"input_ids": i, "attention_mask": a, "labels": torch.tensor(n % 2)}
    for n, (i, a) in enumerate(zip(data["input_ids"], data["attention_mask"]))
]
model = BertForSequenceClassification(
    BertConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8, vocab_size=1000)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=8, shuffle=True))
for batch in loader:
    with accelerator.accumulate(model):
        loss = model(**batch).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
