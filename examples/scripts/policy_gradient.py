"""A policy for a toy environment in NumPy, trained on episodes of any length."""

import argparse

import numpy as np
import torch
from steps import steps
from torch import Tensor, nn
from torch.distributions import Categorical


class Track:
    """Keep a point near the middle of a track; it drifts."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.state = np.zeros(3, dtype=np.float32)

    def reset(self) -> np.ndarray:
        self.state = self.random.normal(size=3).astype(np.float32)
        return self.state.copy()

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        self.state[0] += 0.2 * (action - 1) + 0.05 * self.random.normal()
        self.state[1:] = np.roll(self.state[1:], 1)
        reward = 1.0 - abs(float(self.state[0]))
        ended = abs(self.state[0]) > 2.5 or self.random.random() < 0.05
        return self.state.copy(), reward, bool(ended)


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, 3), nn.Linear(32, 1)

    def forward(self, states: Tensor) -> tuple[Categorical, Tensor]:
        hidden = self.body(states)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(-1)


def main(count: int) -> None:
    torch.manual_seed(5)
    track, policy = Track(5), Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)

    @torch.compile
    def act(state: Tensor) -> Tensor:
        chosen, _ = policy(state)
        return chosen.sample()

    @torch.compile
    def loss_of(states: Tensor, actions: Tensor, returns: Tensor) -> Tensor:
        chosen, values = policy(states)
        advantage = returns - values.detach()
        actor = -(chosen.log_prob(actions) * advantage).mean()
        return actor + 0.5 * (returns - values).pow(2).mean() - 0.01 * chosen.entropy().mean()

    for episode in steps(count):
        states, actions, rewards = [], [], []
        state, ended = track.reset(), False
        while not ended and len(states) < 60:
            states.append(torch.from_numpy(state))
            with torch.no_grad():
                action = act(states[-1])
            actions.append(action)
            state, reward, ended = track.step(int(action))
            rewards.append(reward)
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.9 * total
            returns.insert(0, total)
        loss = loss_of(torch.stack(states), torch.stack(actions), torch.tensor(returns))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if episode % 20 == 0:
            print(f"episode {episode}: {len(states)} steps, loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    main(parser.parse_args().steps)
