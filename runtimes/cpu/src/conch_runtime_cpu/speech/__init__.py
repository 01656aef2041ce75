"""What an engine of speech decides beside the model: spectrograms, rules of ids, tries, times of words; pure numpy."""
