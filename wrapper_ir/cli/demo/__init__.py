"""The demonstration: one model through everything, compared and timed.

``model`` finds the example, ``training`` takes the step that is compared, ``timing`` measures,
``report`` holds and shows the outcome, ``story`` is the order in which it all happens.
"""
