# After Keras' "Writing a training loop from scratch in PyTorch".
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

words = keras.Input(shape=(64,), dtype="int32")
h = keras.layers.Embedding(1000, 128)(words)
h = keras.layers.LayerNormalization()(h + keras.layers.MultiHeadAttention(num_heads=4, key_dim=32)(h, h))
h = keras.layers.Dense(256, activation="gelu")(h)
model = keras.Model(words, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(h)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_of = torch.nn.CrossEntropyLoss()
for step in range(2):
    batch, labels = torch.randint(0, 1000, (16, 64)), torch.randint(0, 2, (16,))
    batch, labels = batch.to("cuda"), labels.to("cuda")
    loss = loss_of(model(batch), labels)
    model.zero_grad()
    loss.backward()
    optimizer.step()
