"""Classify handwritten digits in PyTorch, in mini-batches, with a KAN on Kandle's kernels.

The script is what efficient-kan's MNIST example looks like after changing the import; the data set
is the one of 8 x 8 images that scikit-learn brings along.
"""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split

from kandle.torch import KAN


def accuracy(model: torch.nn.Module, loader: DataLoader) -> float:
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / sum(len(y) for _, y in loader)


def main(epochs: int = 15) -> float:
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 8 - 1  # pixels of [-1, 1]
    data = TensorDataset(images, torch.tensor(digits.target))
    training, validation = random_split(data, [0.8, 0.2])
    training_loader = DataLoader(training, batch_size=64, shuffle=True)
    validation_loader = DataLoader(validation, batch_size=256)

    model = KAN([64, 32, 10])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
    criterion = torch.nn.CrossEntropyLoss()
    score = 0.0
    for epoch in range(epochs):
        model.train()
        for x, y in training_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        schedule.step()
        score = accuracy(model, validation_loader)
        print(f"epoch {epoch + 1}: accuracy {score:.3f}")
    return score


if __name__ == "__main__":
    main()
