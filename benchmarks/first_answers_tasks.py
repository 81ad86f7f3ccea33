"""Twenty ordinary questions to a small model: a text, one to three plain fields, the right answer.

They were written before any of them was run, and none was changed or left out afterwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Task(NamedTuple):
    """A question.

    Attributes:
        prompt: What a person would type.
        fields: The type of each field of the answer, as JSON Schema names it, or its options.
        answer: The right answer.
    """

    prompt: str
    fields: dict[str, Any]
    answer: dict[str, Any]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema that a person would write: nothing is said of other fields."""
        return {
            "type": "object",
            "properties": {
                name: {"enum": kind} if isinstance(kind, list) else {"type": kind}
                for name, kind in self.fields.items()
            },
            "required": list(self.fields),
        }


TASKS = (
    Task(
        "Tom Baker is 41 years old and works as a plumber in Leeds. What are his name and age?",
        {"name": "string", "age": "integer"},
        {"name": "Tom Baker", "age": 41},
    ),
    Task(
        "Our flight to Rome leaves at gate 14. Extract the city and the gate number.",
        {"city": "string", "gate": "integer"},
        {"city": "Rome", "gate": 14},
    ),
    Task(
        "The blue jacket costs 60 dollars. Give the color and the price.",
        {"color": "string", "price": "integer"},
        {"color": "blue", "price": 60},
    ),
    Task(
        "Please book a table for 6 people at Luigi's. How many people are coming?",
        {"people": "integer"},
        {"people": 6},
    ),
    Task(
        "I absolutely loved this film, the best I have seen this year! What is the sentiment?",
        {"sentiment": ["positive", "negative"]},
        {"sentiment": "positive"},
    ),
    Task(
        "The soup was cold and the waiter was rude. Is this review positive or negative?",
        {"sentiment": ["positive", "negative"]},
        {"sentiment": "negative"},
    ),
    Task(
        "Julia was born in 1987 in Vienna. Extract the year of birth and the city.",
        {"year": "integer", "city": "string"},
        {"year": 1987, "city": "Vienna"},
    ),
    Task(
        "Send 25 boxes of paper to Berlin. Which item is ordered, and how many boxes?",
        {"item": "string", "quantity": "integer"},
        {"item": "paper", "quantity": 25},
    ),
    Task(
        "My email address is sam@example.com. Extract the email address.",
        {"email": "string"},
        {"email": "sam@example.com"},
    ),
    Task(
        "The capital of Japan is Tokyo. Extract the country and its capital.",
        {"country": "string", "capital": "string"},
        {"country": "Japan", "capital": "Tokyo"},
    ),
    Task(
        "The package weighs 3.5 kilograms. What is its weight in kilograms?",
        {"weight": "number"},
        {"weight": 3.5},
    ),
    Task(
        "The shop is open today. Is it open?",
        {"open": "boolean"},
        {"open": True},
    ),
    Task(
        "Order number 7731 was placed by Nina. Extract the order number and the customer.",
        {"order": "integer", "customer": "string"},
        {"order": 7731, "customer": "Nina"},
    ),
    Task(
        "The movie Jaws was directed by Steven Spielberg in 1975. Extract title, director and "
        "year.",
        {"title": "string", "director": "string", "year": "integer"},
        {"title": "Jaws", "director": "Steven Spielberg", "year": 1975},
    ),
    Task(
        "The temperature in Oslo is 12 degrees. Extract the city and the temperature.",
        {"city": "string", "temperature": "integer"},
        {"city": "Oslo", "temperature": 12},
    ),
    Task(
        "Mr. Chen teaches physics at the local school. What is his name and what does he teach?",
        {"name": "string", "subject": "string"},
        {"name": "Mr. Chen", "subject": "physics"},
    ),
    Task(
        "Rex is a dog who is 5 years old. Extract the name of the animal, its kind and its age.",
        {"name": "string", "kind": "string", "age": "integer"},
        {"name": "Rex", "kind": "dog", "age": 5},
    ),
    Task(
        "The meeting is on Monday at 10. On which day is the meeting?",
        {"day": "string"},
        {"day": "Monday"},
    ),
    Task(
        "This ticket is urgent: the server is down! What is the priority, low or high?",
        {"priority": ["low", "high"]},
        {"priority": "high"},
    ),
    Task(
        "Anna bought 4 apples. Who bought how many apples?",
        {"name": "string", "apples": "integer"},
        {"name": "Anna", "apples": 4},
    ),
)
