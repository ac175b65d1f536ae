"""`hearth demo`: an editor without a window, that has the real server complete the sample projects."""
