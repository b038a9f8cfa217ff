# After Keras' "Simple MNIST convnet", backend torch.
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

model = keras.Sequential([
    keras.Input(shape=(28, 28, 1)),
    keras.layers.Conv2D(32, kernel_size=(3, 3), activation="relu"),
    keras.layers.MaxPooling2D(pool_size=(2, 2)),
    keras.layers.Conv2D(64, kernel_size=(3, 3), activation="relu"),
    keras.layers.MaxPooling2D(pool_size=(2, 2)),
    keras.layers.Flatten(),
    keras.layers.Dropout(0.5),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
pictures, labels = np.random.rand(64, 28, 28, 1).astype("float32"), np.eye(10, dtype="float32")[np.arange(64) % 10]
model.fit(pictures, labels, batch_size=16, epochs=1, verbose=0)
