"""Data in, data out: the model, the rules and the text work of Tributary. Opens nothing."""
