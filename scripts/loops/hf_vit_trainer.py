# After transformers' "Image classification" task guide. (also for transformers 4)
import tempfile

import torch
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

pictures = [{"pixel_values": torch.rand(3, 224, 224), "labels": i % 10} for i in range(16)]
model = ViTForImageClassification(
    ViTConfig(hidden_size=192, intermediate_size=768, num_hidden_layers=4, num_attention_heads=3, num_labels=10)
)
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), remove_unused_columns=False, per_device_train_batch_size=8, fp16=True, max_steps=2,
    warmup_steps=1, report_to="none", save_strategy="no",
)
Trainer(model=model, args=arguments, train_dataset=pictures).train()
