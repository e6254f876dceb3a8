"""What experiments explain and compare with: a ResNet-18, its features, scores of labels."""
